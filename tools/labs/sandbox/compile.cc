#include <sys/wait.h>
#include <tutti/tools/labs/sandbox/compile.h>
#include <tutti/tools/labs/sandbox/prebuilt.h>

#include <cstdlib>
#include <stdexcept>

namespace tutti::labs {

namespace fs = std::filesystem;

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string reason_of(const CommandResult& result, const std::string& file, const CommandLimits& limits) {
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

std::string compiler() {
  if (const char* chosen = std::getenv("TUTTI_LAB_COMPILER"); chosen != nullptr && *chosen != '\0') return chosen;
  for (const char* name : {TUTTI_BUILD_COMPILER, "c++", "g++", "clang++"}) {
    if (!program_named(name).empty()) return name;
  }
  throw std::runtime_error(
      "no C++ compiler found (c++, g++, clang++): install one, on Debian and Ubuntu with apt install g++, or name it "
      "in TUTTI_LAB_COMPILER");
}

Compiled compile(const fs::path& source, const Workplace& workplace, const CommandLimits& limits) {
  const std::string file = source.filename().string();
  const std::vector<std::string> command{compiler(), "-std=c++20", "-O0", "-Wall", "-static"};
  const Prebuilt prebuilt(command, workplace.path(), limits);
  const fs::path copy = workplace.path() / "source" / file;
  fs::create_directories(copy.parent_path());
  fs::copy_file(source, copy, fs::copy_options::overwrite_existing);
  Compiled compiled;
  compiled.program = workplace.path() / "submission";
  std::vector<std::string> arguments = command;
  arguments.insert(arguments.end(), {"-I", prebuilt.include().string(), "-o", compiled.program.string(),
                                     prebuilt.driver().string(), copy.string()});
  const CommandResult result = run_limited(arguments, workplace.path(), limits);
  compiled.messages = result.output;
  replace_all(compiled.messages, copy.parent_path().string() + "/", "");
  replace_all(compiled.messages, prebuilt.include().string() + "/", "");
  if (compiled.messages.size() > limits.message_bytes) {
    compiled.messages = compiled.messages.substr(0, limits.message_bytes) + "\n... (cut)\n";
  }
  compiled.is_good = result.is_good();
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
