// Short words for tests that run the `tutti` program.
#pragma once

#include <signal.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_processes.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tutti::test {

using Words = std::vector<std::string>;

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline Finished tutti(const Words& words, const Words& environment = {}) {
  return run_program(joined({TUTTI_PROGRAM}, words), environment);
}

/// tutti run <options> -- sh -c <script>
inline Words run_command(const Words& options, std::string script) {
  return joined(joined({TUTTI_PROGRAM, "run"}, options), {"--", "sh", "-c", std::move(script)});
}

inline Finished tutti_run(const Words& options, std::string script, const Words& environment = {}) {
  return run_program(run_command(options, std::move(script)), environment);
}

inline constexpr ExitStatus exited(int status) { return {false, status}; }

/// The program has ended with status 0, and each of `parts` stands in what it printed.
inline void expect_success(const Finished& run, const std::vector<std::string>& parts = {},
                           std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_success");
  EXPECT_EQ(run.status, exited(0)) << run.err;
  expect_parts(run.out, parts);
}

/// The program has ended with `status`, and each of `parts` stands in its standard error.
inline void expect_failure(const Finished& run, int status, const std::vector<std::string>& parts,
                           std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_failure");
  EXPECT_EQ(run.status, exited(status)) << run.err;
  expect_parts(run.err, parts);
}

/// Wrong usage: status 2, one sentence first, and nothing on standard output.
inline void expect_wrong_usage(const Finished& run, const std::string& sentence,
                               std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_wrong_usage");
  EXPECT_EQ(run.status, exited(2)) << sentence;
  EXPECT_EQ(run.err.substr(0, run.err.find('\n')), sentence);
  EXPECT_EQ(run.out, "");
}

/// One program that runs beside the test; killed with its process group at the end.
class Running {
 public:
  explicit Running(const Words& command, const Words& environment = {})
      : process_({.command = command, .count = 1, .ranks = false, .environment = environment}) {}

  pid_t pid() const { return process_.pid(0); }
  std::string out() const { return process_.out(0); }
  std::string err() const { return process_.err(0); }
  bool prints(const std::string& text) { return process_.wait_for_output(0, text); }
  bool complains(const std::string& text) { return process_.wait_for_error(0, text); }
  /// Until ranks 0 to `count` - 1 have printed a line that begins with `text`.
  bool ranks_print(int count, const std::string& text) {
    bool all = true;
    for (int rank = 0; rank < count; ++rank) all = all && prints("[rank " + std::to_string(rank) + "] " + text);
    return all;
  }
  void kill(int signal) { process_.kill(0, signal); }
  bool has_ended(std::chrono::milliseconds limit) { return process_.wait(0, limit).has_value(); }
  void expect_end(int status, std::source_location where = std::source_location::current()) {
    const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_end");
    EXPECT_EQ(process_.wait(0), exited(status)) << err();
  }

 private:
  Processes process_;
};

/// A rank that goes on after SIGTERM, as one that writes a checkpoint does, and ends well by SIGXCPU.
inline constexpr char kSavesUntilXcpu[] =
    "trap 'echo saving' TERM; trap 'echo saved; exit 0' XCPU; echo ready; while :; do sleep 0.05; done";

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The first line, without its end.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

inline Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline Words sorted_lines(const std::string& text) {
  Words lines = lines_of(text);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// Numbers that follow `word` in lines of a text.
inline std::vector<pid_t> numbers_after(const std::string& text, const std::string& word) {
  std::vector<pid_t> numbers;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    numbers.push_back(std::stoi(text.substr(at + word.size())));
  return numbers;
}

}  // namespace tutti::test
