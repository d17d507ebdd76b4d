#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/signals.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace tutti::tools {
namespace {

constexpr std::chrono::seconds kSameRequest{1};

// All that can be caught and are sent from outside: not those of a fault of this process's own (SIGSEGV and the like),
// of its terminal (SIGTTIN, SIGTTOU), its pipes and its children, nor SIGCONT, which would wake ranks that a debugger
// has stopped.
std::vector<int> forwarded() {
  std::vector<int> result{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,   SIGUSR2, SIGTSTP, SIGALRM, SIGVTALRM,
                          SIGPROF, SIGXCPU, SIGXFSZ, SIGPWR,  SIGSTKFLT, SIGIO,   SIGURG,  SIGWINCH};
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) result.push_back(signal);
  return result;
}

pid_t reader = 0;  // the thread that reads the signals

// The kernel gives a signal of the process to any thread that does not block it. There it would be lost, or end the
// process; the reader finds it pending.
void hand_on(int signal) {
  const int error = errno;
  syscall(SYS_tgkill, getpid(), reader, signal);
  errno = error;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalGuard::SignalGuard() {
  sigemptyset(&watched_);
  // Also where it is ignored (inherited from a careless parent): the kernel would throw the ranks' statuses away.
  sigaddset(&watched_, SIGCHLD);
  // A blocked signal reaches a signalfd even when its disposition is "ignore", so those must not be blocked.
  for (const int signal : forwarded()) {
    if (!is_ignored(signal)) sigaddset(&watched_, signal);
  }
  fd_ = signalfd(-1, &watched_, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) comm::throw_errno("cannot watch signals (signalfd)", errno);

  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &old_pipe_);
  pthread_sigmask(SIG_BLOCK, &watched_, &old_mask_);
  reader = ::gettid();
  action.sa_handler = hand_on;
  action.sa_flags = SA_RESTART;
  for (int signal = 1; signal < _NSIG; ++signal) {
    if (sigismember(&watched_, signal) == 1) sigaction(signal, &action, &old_[static_cast<std::size_t>(signal)]);
  }
}

SignalGuard::~SignalGuard() {
  while (next()) {
  }
  ::close(fd_);
  restore();
}

std::optional<int> SignalGuard::next() {
  signalfd_siginfo info;
  while (::read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (!asks_to_end(signal)) return signal;
    const bool first = !first_request_;
    note_request();
    if (first || std::chrono::steady_clock::now() >= *first_request_ + kSameRequest) return signal;
  }
  return std::nullopt;
}

void SignalGuard::note_request() {
  if (!first_request_) first_request_ = std::chrono::steady_clock::now();
}

void SignalGuard::restore() const noexcept {
  sigaction(SIGPIPE, &old_pipe_, nullptr);
  for (int signal = 1; signal < _NSIG; ++signal) {
    if (sigismember(&watched_, signal) == 1) sigaction(signal, &old_[static_cast<std::size_t>(signal)], nullptr);
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

bool asks_to_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT; }

std::string signal_name(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  if (abbreviation != nullptr) return std::string("SIG") + abbreviation;
  const bool real_time = signal >= SIGRTMIN && signal <= SIGRTMAX;
  return real_time ? "SIGRTMIN+" + std::to_string(signal - SIGRTMIN) : "signal " + std::to_string(signal);
}

}  // namespace tutti::tools
