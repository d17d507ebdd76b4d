#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/sandbox/compile.h>
#include <tutti/tools/labs/sandbox/confined_process.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tutti::labs {

namespace fs = std::filesystem;

using std::chrono::steady_clock;

namespace {

// --- A command of the grader's own under limits. ---

struct CommandResult {
  int status = 0;  // as waitpid() gives it
  std::string output{};
  bool is_out_of_time = false;
  bool is_too_talkative = false;
};

constexpr std::size_t kMostMessages = std::size_t{4} << 20;

struct CommandPlan {
  pid_t grader;
  int output, null;
  char* const* arguments;
  char* const* environment;
  const char* folder;
  const CompileLimits* limits;
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
void take_output(int fd, const CompileLimits& limits, CommandResult& result) {
  const auto deadline = steady_clock::now() + limits.wall;
  std::size_t total = 0;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    const int found = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left));
    if (found < 0 && errno == EINTR) continue;
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

/// `arguments[0]` is looked for in the path. Standard input is empty, the working folder is `folder`, which is also the
/// place of temporary files. Whatever it has started is killed at the end. Throws std::runtime_error if it cannot be
/// started. Blocks at most limits.wall.
CommandResult run_limited(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                          const CompileLimits& limits) {
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
  const CommandPlan plan{::getpid(),     write_end.get(), null.get(), argument_list.data(), environment_list.data(),
                         folder.c_str(), &limits};
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot start " + arguments[0] + ": " + std::strerror(errno));
  if (pid == 0) run_command(plan);
  write_end.reset();
  CommandResult result;
  take_output(read_end.get(), limits, result);
  if (result.is_out_of_time || result.is_too_talkative) ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &result.status, 0) < 0 && errno == EINTR) {
  }
  ::kill(-pid, SIGKILL);  // what it has left behind
  return result;
}

// --- Compiling. ---

bool can_run(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

void write_file(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string() + " for compiling a submission");
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string reason_of(const CommandResult& result, const std::string& file, const CompileLimits& limits) {
  if (result.is_out_of_time || (WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGXCPU)) {
    return file + " takes the compiler longer than " + std::to_string(limits.cpu.count()) +
           " s, which is all the grader gives it";
  }
  if (result.is_too_talkative) return file + " makes the compiler talk without end";
  if (result.output.find("multiple definition of `main'") != std::string::npos) {
    return file + " defines main(): leave it out, the grader has one";
  }
  if (result.output.find("out of memory") != std::string::npos || WIFSIGNALED(result.status)) {
    return file + " makes the compiler fail for lack of memory or time";
  }
  return file + " does not compile";
}

}  // namespace

Workplace::Workplace() { fs::create_directory(empty_folder()); }

std::string compiler() {
  if (const char* chosen = std::getenv("TUTTI_LAB_COMPILER"); chosen != nullptr && *chosen != '\0') return chosen;
  for (const char* name : {TUTTI_BUILD_COMPILER, "c++", "g++", "clang++"}) {
    if (can_run(name)) return name;
  }
  throw std::runtime_error(
      "no C++ compiler found (c++, g++, clang++): install one, on Debian and Ubuntu with apt install g++, or name it "
      "in "
      "TUTTI_LAB_COMPILER");
}

Compiled compile(const fs::path& source, const Workplace& workplace, const CompileLimits& limits) {
  const std::string file = source.filename().string();
  const fs::path include = workplace.path() / "include";
  for (const EmbeddedFile& header : submission_files())
    write_file(include / "tutti/tools/labs" / header.path, header.text);
  const fs::path copy = workplace.path() / "source" / file;
  fs::create_directories(copy.parent_path());
  fs::copy_file(source, copy, fs::copy_options::overwrite_existing);
  Compiled compiled;
  compiled.program = workplace.path() / "submission";
  const std::vector<std::string> command{compiler(),
                                         "-std=c++20",
                                         "-O0",
                                         "-Wall",
                                         "-static",
                                         "-I",
                                         include.string(),
                                         "-o",
                                         compiled.program.string(),
                                         (include / "tutti/tools/labs/driver/driver.cc").string(),
                                         copy.string()};
  const CommandResult result = run_limited(command, workplace.path(), limits);
  compiled.messages = result.output;
  replace_all(compiled.messages, copy.parent_path().string() + "/", "");
  replace_all(compiled.messages, include.string() + "/", "");
  if (compiled.messages.size() > limits.message_bytes) {
    compiled.messages = compiled.messages.substr(0, limits.message_bytes) + "\n... (cut)\n";
  }
  compiled.is_good = result.status == 0 && !result.is_out_of_time && !result.is_too_talkative;
  if (compiled.is_good) return compiled;
  if (compiled.messages.find("cannot find -l") != std::string::npos) {
    throw std::runtime_error("compiling a submission needs the static C and C++ libraries, which " + compiler() +
                             " does not find: on Fedora install glibc-static and libstdc++-static\n" +
                             compiled.messages);
  }
  compiled.reason = reason_of(result, file, limits);
  return compiled;
}

}  // namespace tutti::labs
