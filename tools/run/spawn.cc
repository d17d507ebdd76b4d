#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

namespace tutti::tools {
namespace {

struct Pipe {
  comm::Socket read_end;
  comm::Socket write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) comm::throw_errno("cannot make a pipe for a rank's output", errno);
  return {comm::Socket(ends[0]), comm::Socket(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

using CpuMask = std::vector<unsigned long>;

// As the kernel reads it, for any number of CPUs.
CpuMask mask_of(const std::vector<int>& cpus) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  CpuMask mask;
  for (const int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    mask.resize(std::max(mask.size(), bit / kBits + 1));
    mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  return mask;
}

// Everything a child needs between fork and exec, prepared beforehand: there it must not allocate.
struct ChildPlan {
  pid_t launcher;
  int in_fd, out_fd, err_fd, report_fd;
  const CpuMask& cpus;  // empty: as the launcher
  const char* path;
  char* const* argv;
  char* const* shell_argv;
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

// Async-signal-safe calls only.
[[noreturn]] void run_child(const ChildPlan& plan) noexcept {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(127);  // the launcher died before the line above
  plan.keeper.register_self();
  if (!plan.cpus.empty())
    sched_setaffinity(0, plan.cpus.size() * sizeof(plan.cpus[0]), reinterpret_cast<const cpu_set_t*>(plan.cpus.data()));
  if (plan.in_fd != STDIN_FILENO) dup2(plan.in_fd, STDIN_FILENO);
  dup2(plan.out_fd, STDOUT_FILENO);
  dup2(plan.err_fd, STDERR_FILENO);
  close_on_exec_all_but(plan.keep_open);
  plan.signals.restore();
  execve(plan.path, plan.argv, plan.environment);
  // As a shell does: a script without "#!" is given to /bin/sh.
  if (errno == ENOEXEC) execve("/bin/sh", plan.shell_argv, plan.environment);
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

// 0 if `path` can be executed, else why not.
int execution_error(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

CannotExecute::CannotExecute(const std::string& program, int error_number)
    : std::runtime_error("cannot execute '" + program + "': " + comm::errno_text(error_number)),
      status_(error_number == ENOENT ? 127 : 126) {}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (const int error = execution_error(name); error != 0) throw CannotExecute(name, error);
    return name;
  }
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  int first_obstacle = ENOENT;
  for (std::size_t begin = 0; begin <= path.size() && !name.empty();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    const int error = execution_error(candidate);
    if (error == 0) return candidate;
    if (error == EACCES && first_obstacle == ENOENT) first_obstacle = error;
    begin = end + 1;
  }
  throw CannotExecute(name, first_obstacle);
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
    const int opened = ::open("/dev/null", O_RDWR);  // the lowest free number, which is fd
    if (opened >= 0 && opened != fd) ::close(opened);
  }
}

SpawnedRank spawn_rank(const SpawnPlan& plan, const SignalGuard& signals, const Keeper& keeper) {
  Pipe out = make_pipe(), err = make_pipe(), report = make_pipe();
  const comm::Socket null_device(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null_device.get() < 0) comm::throw_errno("cannot open /dev/null", errno);
  const std::vector<char*> argv = pointers(plan.command);
  const std::vector<char*> environment = pointers(plan.environment);
  std::vector<std::string> shell_command = plan.command;
  shell_command.front() = plan.path;
  shell_command.insert(shell_command.begin(), "sh");
  const std::vector<char*> shell_argv = pointers(shell_command);

  const CpuMask cpus = mask_of(plan.cpus);
  const ChildPlan child{::getpid(),
                        plan.stdin_fd >= 0 ? plan.stdin_fd : null_device.get(),
                        out.write_end.get(),
                        err.write_end.get(),
                        report.write_end.get(),
                        cpus,
                        plan.path.c_str(),
                        argv.data(),
                        shell_argv.data(),
                        environment.data(),
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
    throw CannotExecute(plan.command.front(), error);
  }
  set_nonblocking(out.read_end.get());
  set_nonblocking(err.read_end.get());
  return {pid, out.read_end.release(), err.read_end.release()};
}

}  // namespace tutti::tools
