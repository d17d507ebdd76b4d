#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tutti/tools/labs/sandbox/confined_process.h>
#include <tutti/tools/labs/sandbox/limited_command.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace tutti::labs {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kMostMessages = std::size_t{4} << 20;
constexpr std::chrono::milliseconds::rep kLookEvery = 200;

struct CommandPlan {
  pid_t grader;
  int output, null;
  char* const* arguments;
  char* const* environment;
  const char* folder;
  const CommandLimits* limits;
};

// Async-signal-safe calls only.
[[noreturn]] void run_command(const CommandPlan& plan) noexcept {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.grader) _exit(127);
  dup2(plan.null, STDIN_FILENO);
  dup2(plan.output, STDOUT_FILENO);
  dup2(plan.output, STDERR_FILENO);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(plan.limits->cpu.count()));
  limit(RLIMIT_AS, plan.limits->memory_bytes);
  limit(RLIMIT_FSIZE, plan.limits->file_bytes);
  limit(RLIMIT_CORE, 0);
  if (chdir(plan.folder) != 0) _exit(127);
  execvpe(plan.arguments[0], plan.arguments, plan.environment);
  _exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Reads until end of file, the deadline or too much; the output is cut to what is kept.
void take_output(int fd, const CommandLimits& limits, CommandResult& result) {
  const auto deadline = steady_clock::now() + limits.wall;
  std::size_t total = 0;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    const int found = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(std::min(left, kLookEvery)));
    if (limits.while_waiting) limits.while_waiting();
    if ((found < 0 && errno == EINTR) || (found == 0 && left > 0)) continue;
    result.is_out_of_time = found <= 0;
    result.is_too_talkative = total > kMostMessages;
    if (result.is_out_of_time || result.is_too_talkative) return;
    char text[4096];
    const ssize_t got = ::read(fd, text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    total += static_cast<std::size_t>(got);
    if (result.output.size() < limits.message_bytes) result.output.append(text, static_cast<std::size_t>(got));
  }
}

}  // namespace

CommandResult run_limited(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                          const CommandLimits& limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("cannot make a pipe: ") + std::strerror(errno));
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const char* path = std::getenv("PATH");
  const std::vector<std::string> environment{"PATH=" + std::string(path == nullptr ? "/usr/bin:/bin" : path), "LANG=C",
                                             "LC_ALL=C", "TMPDIR=" + folder.string()};
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> environment_list = pointers(environment);
  const CommandPlan plan{::getpid(),
                         write_end.get(),
                         null.get(),
                         argument_list.data(),
                         limits.keeps_environment ? environ : environment_list.data(),
                         folder.c_str(),
                         &limits};
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot start " + arguments[0] + ": " + std::strerror(errno));
  if (pid == 0) run_command(plan);
  write_end.close();
  CommandResult result;
  take_output(read_end.get(), limits, result);
  if (result.is_out_of_time || result.is_too_talkative) ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &result.status, 0) < 0 && errno == EINTR) {
  }
  ::kill(-pid, SIGKILL);  // what it has left behind
  return result;
}

}  // namespace tutti::labs
