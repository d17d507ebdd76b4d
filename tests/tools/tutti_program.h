// Short words for tests that run the `tutti` program.
#pragma once

#include <signal.h>
#include <tutti/tests/support/run_processes.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::test {

/// tutti run <options> -- sh -c <script>
inline std::vector<std::string> run_command(std::vector<std::string> options, std::string script) {
  std::vector<std::string> command{TUTTI_PROGRAM, "run"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", std::move(script)});
  return command;
}

inline Finished tutti_run(std::vector<std::string> options, std::string script) {
  return run_program(run_command(std::move(options), std::move(script)));
}

/// A rank that goes on after SIGTERM, as one that writes a checkpoint does, and ends well by SIGXCPU.
inline constexpr char kSavesUntilXcpu[] =
    "trap 'echo saving' TERM; trap 'echo saved; exit 0' XCPU; echo ready; while :; do sleep 0.05; done";

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The first line, without its end.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

inline constexpr ExitStatus exited(int status) { return {false, status}; }

}  // namespace tutti::test
