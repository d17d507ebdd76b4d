#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/host.h>
#include <tutti/tools/run/spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

namespace tutti::tools {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

// Everything a child needs between fork and exec, prepared beforehand: there it must not allocate.
struct ChildPlan {
  pid_t launcher;
  int in_fd, out_fd, err_fd, report_fd;
  const CpuMask* cpus;  // null: those of the launcher
  char* const* argv;
  char* const* environment;
  const std::vector<int>& keep_open;
  const SignalGuard& signals;
  const Keeper& keeper;
};

void close_on_exec_all_but(const std::vector<int>& keep_open) noexcept {
  unsigned first = 3;
  for (const int fd : keep_open) {
    const unsigned keep = static_cast<unsigned>(fd);
    if (keep > first) close_range(first, keep - 1, CLOSE_RANGE_CLOEXEC);
    first = keep + 1;
  }
  close_range(first, ~0U, CLOSE_RANGE_CLOEXEC);
}

// Calls only that are async-signal-safe, as glibc's execvpe is.
[[noreturn]] void run_child(const ChildPlan& plan) noexcept {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(127);  // the launcher died before the line above
  plan.keeper.register_self();
  if (plan.cpus != nullptr) sched_setaffinity(0, sizeof(*plan.cpus), plan.cpus->data());
  if (plan.in_fd != STDIN_FILENO) dup2(plan.in_fd, STDIN_FILENO);
  dup2(plan.out_fd, STDOUT_FILENO);
  dup2(plan.err_fd, STDERR_FILENO);
  close_on_exec_all_but(plan.keep_open);
  plan.signals.restore();
  execvpe(plan.argv[0], plan.argv, plan.environment);  // gives a script without "#!" to /bin/sh, as a shell does
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(plan.report_fd, &error, sizeof(error));
  _exit(127);
}

// 0 when the child's exec closed the pipe, else the errno it reported.
int await_exec(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(error)) ? error : 0;
}

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

CannotExecute::CannotExecute(const std::string& program, int error_number)
    : std::runtime_error("cannot execute '" + program + "': " + comm::errno_text(error_number)),
      status_(error_number == ENOENT ? 127 : 126) {}

Pipe make_pipe(const std::string& purpose) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) comm::throw_errno("cannot make a pipe for " + purpose, errno);
  return {comm::Socket(ends[0]), comm::Socket(ends[1])};
}

std::vector<int> inherited_descriptors() {
  std::vector<int> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const int fd = std::atoi(entry->d_name);
    if (fd < 3 || fd == ::dirfd(folder.get())) continue;
    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) result.push_back(fd);
  }
  std::sort(result.begin(), result.end());
  return result;
}

void ensure_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", O_RDONLY);  // the lowest free number, which is fd; what is printed fails
    if (opened >= 0 && opened != fd) ::close(opened);
  }
}

SpawnedRank spawn_rank(const SpawnPlan& plan, const SignalGuard& signals, const Keeper& keeper) {
  const std::string purpose = "a rank's output";
  Pipe out = make_pipe(purpose), err = make_pipe(purpose), report = make_pipe(purpose);
  const comm::Socket null_device(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null_device.get() < 0) comm::throw_errno("cannot open /dev/null", errno);
  const std::vector<char*> argv = pointers(plan.command);
  const std::vector<char*> environment = pointers(plan.environment);
  CpuMask cpus{};
  for (const int cpu : plan.cpus) CPU_SET_S(static_cast<std::size_t>(cpu), sizeof(cpus), cpus.data());
  const ChildPlan child{::getpid(),
                        plan.stdin_fd >= 0 ? plan.stdin_fd : null_device.get(),
                        out.write_end.get(),
                        err.write_end.get(),
                        report.write_end.get(),
                        plan.cpus.empty() ? nullptr : &cpus,
                        argv.data(),
                        plan.environment.empty() ? environ : environment.data(),
                        plan.keep_open,
                        signals,
                        keeper};
  const pid_t pid = ::fork();
  if (pid == 0) run_child(child);
  if (pid < 0) comm::throw_errno("cannot start another process (fork)", errno);

  report.write_end.close();
  if (const int error = await_exec(report.read_end.get()); error != 0) {
    keeper.forget(pid);
    ::waitpid(pid, nullptr, 0);
    const bool folder = error == EACCES && std::filesystem::is_directory(plan.command.front());
    throw CannotExecute(plan.command.front(), folder ? EISDIR : error);
  }
  set_nonblocking(out.read_end.get());
  set_nonblocking(err.read_end.get());
  return {pid, out.read_end.release(), err.read_end.release()};
}

bool note_end(RankEnd& rank) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != rank.pid)
    return false;
  rank.running = false;
  rank.ended = RankEnd::Clock::now();
  rank.by_signal = info.si_code != CLD_EXITED;
  rank.core_dumped = info.si_code == CLD_DUMPED;
  rank.code = info.si_status;
  return true;
}

}  // namespace tutti::tools
