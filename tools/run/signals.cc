#include <sys/signalfd.h>
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

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalGuard::SignalGuard() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  // A blocked signal reaches a signalfd even when its disposition is "ignore", so those must not be blocked.
  for (const int signal : forwarded()) {
    if (!is_ignored(signal)) sigaddset(&watched, signal);
  }
  fd_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) comm::throw_errno("cannot watch signals (signalfd)", errno);

  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &old_pipe_);
  // With SIGCHLD ignored (inherited from a careless parent) the kernel would throw the ranks' exit statuses away.
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &old_child_);
  pthread_sigmask(SIG_BLOCK, &watched, &old_mask_);
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
  sigaction(SIGCHLD, &old_child_, nullptr);
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
