#include <sys/wait.h>
#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/sandbox/compile.h>
#include <tutti/tools/labs/sandbox/limited_command.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tutti::labs {

namespace fs = std::filesystem;

namespace {

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
