#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tools/labs/driver/protocol.h>
#include <tutti/tools/labs/sandbox/confined_process.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tutti::labs {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

// A page at an address that nobody can guess; it holds zeros, so that as a path it is empty.
class SecretPage {
 public:
  SecretPage() {
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::uint64_t random = 0;
      if (getrandom(&random, sizeof random, 0) != sizeof random) fail("cannot draw a random number for the sandbox");
      const std::uint64_t wanted = random & 0x0000'3FFF'FFFF'F000;
      page_ = mmap(reinterpret_cast<void*>(wanted), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                   -1, 0);
      if (page_ != MAP_FAILED) {
        path_ = static_cast<const char*>(page_) + (random >> 48) % 4096;
        return;
      }
    }
    fail("cannot map a page for the sandbox");
  }
  ~SecretPage() { munmap(page_, 4096); }
  SecretPage(const SecretPage&) = delete;
  SecretPage& operator=(const SecretPage&) = delete;
  const char* path() const { return path_; }

 private:
  void* page_ = MAP_FAILED;
  const char* path_ = nullptr;
};

// Everything between fork and exec; prepared beforehand, for there nothing may be allocated.
struct Plan {
  pid_t grader;
  int program, null, socket, output;
  const char* secret_path;
  const char* root;
  Limits limits;
  const SubmissionFilter* filter;
};

[[noreturn]] void give_up(const char* what) noexcept {
  const int error = errno;
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, what, std::strlen(what));
  _exit(error == 0 ? 1 : error);
}

[[noreturn]] void run_child(const Plan& plan) noexcept {
  setsid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWIPC) != 0) errno = 0;  // a second wall: not all systems have it
  if (chroot(plan.root) != 0 || chdir("/") != 0) errno = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.grader) _exit(1);  // the grader died before the line above
  dup2(plan.output, STDERR_FILENO);
  dup2(plan.output, STDOUT_FILENO);
  dup2(plan.null, STDIN_FILENO);
  if (dup2(plan.socket, protocol::kSocket) < 0) give_up("cannot place the referee's socket");
  close_range(protocol::kSocket + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  limit(RLIMIT_AS, plan.limits.memory_bytes);
  limit(RLIMIT_CPU, plan.limits.cpu_seconds);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_STACK, 8 << 20);
  limit(RLIMIT_NOFILE, 16);
  limit(RLIMIT_MEMLOCK, 0);
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  char name[] = "submission";
  char* const arguments[] = {name, nullptr};
  char* const environment[] = {nullptr};
  if (!plan.filter->install()) give_up("this kernel does not filter system calls (seccomp)");
  syscall(SYS_execveat, plan.program, plan.secret_path, arguments, environment, AT_EMPTY_PATH);
  give_up("cannot execute the compiled submission");
}

// A descriptor above those that a rank is started with, so that dup2() in the child overwrites none of them.
Descriptor above_ranks(int fd) {
  if (fd < 0) return Descriptor(fd);
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 16);
  ::close(fd);
  return Descriptor(moved);
}

}  // namespace

void limit(int resource, std::uint64_t most) noexcept {
  const rlimit value{most, most};
  setrlimit(static_cast<decltype(RLIMIT_CPU)>(resource), &value);
}

ConfinedProcess::ConfinedProcess(const std::filesystem::path& program, const std::filesystem::path& empty_folder,
                                 const Limits& limits) {
  const Descriptor file = above_ranks(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("cannot open the compiled submission " + program.string());
  const Descriptor null = above_ranks(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("cannot make a socket for a rank");
  socket_ = above_ranks(ends[0]);
  const Descriptor rank_socket = above_ranks(ends[1]);
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe for a rank's output");
  output_ = above_ranks(ends[0]);
  const Descriptor rank_output = above_ranks(ends[1]);
  for (const int fd : {socket_.get(), output_.get()}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  const SecretPage secret;
  const SubmissionFilter filter(reinterpret_cast<std::uint64_t>(secret.path()));
  const Plan plan{::getpid(),           file.get(), null.get(), rank_socket.get(), rank_output.get(), secret.path(),
                  empty_folder.c_str(), limits,     &filter};
  pid_ = ::fork();
  if (pid_ < 0) fail("cannot start a process for a rank");
  if (pid_ == 0) run_child(plan);
}

ConfinedProcess::~ConfinedProcess() { end(std::chrono::milliseconds(0)); }

std::chrono::nanoseconds ConfinedProcess::cpu_time() const {
  clockid_t clock{};
  timespec used{};
  if (is_reaped_ || clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

int ConfinedProcess::end(std::chrono::milliseconds patience) {
  if (is_reaped_ || pid_ <= 0) return status_;
  const Descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd until_end{handle.get(), POLLIN, 0};
  if (patience.count() > 0 && handle.get() >= 0) ::poll(&until_end, 1, static_cast<int>(patience.count()));
  if (::waitpid(pid_, &status_, WNOHANG) != pid_) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
  }
  is_reaped_ = true;
  return status_;
}

}  // namespace tutti::labs
