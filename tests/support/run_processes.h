// Processes: N processes of a command, for tests of whole programs and of what happens when one of them dies.
//
// With `ranks = true` each gets the environment of a launcher's rank and they share a TcpStoreServer that lives here.
// Each process leads a process group of its own; the destructor kills the groups and reaps. What they print is captured
// by one thread. Processes are made with posix_spawn, never by a bare fork. Thread-safety: one thread uses an object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::test {

struct ProcessesOptions {
  std::vector<std::string> command;  // argv; looked up in PATH
  int count = 1;
  bool ranks = true;                       // false: this process's environment, no store
  std::vector<std::string> environment{};  // "NAME=value", on top
};

struct ExitStatus {
  bool by_signal = false;
  int code = 0;  // exit status, or the signal
  bool operator==(const ExitStatus&) const = default;
};

class Processes {
 public:
  /// Throws comm::Error{System} if one cannot be started.
  explicit Processes(const ProcessesOptions& options);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int rank) const;
  /// The port of the store server; 0 without ranks.
  std::uint16_t store_port() const;

  /// Ends the store server, as if its process had died.
  void stop_store();

  /// Sends the signal to the process itself (not to its group).
  void kill(int rank, int signal);

  /// Waits for the end and for all that it printed; nothing if `limit` passes first.
  std::optional<ExitStatus> wait(int rank, std::chrono::milliseconds limit = std::chrono::seconds(60));

  /// What the process has printed so far.
  std::string out(int rank) const;
  std::string err(int rank) const;

  /// Waits until `text` stands in the output; false if `limit` passes, or the output ends, first.
  bool wait_for_output(int rank, std::string_view text, std::chrono::milliseconds limit = std::chrono::seconds(30));
  bool wait_for_error(int rank, std::string_view text, std::chrono::milliseconds limit = std::chrono::seconds(30));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct Finished {
  ExitStatus status;
  std::string out;
  std::string err;
};

/// Runs one command to its end. Throws comm::Error{Timeout}, with what was printed, after `limit`; the process is
/// killed.
Finished run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {},
                     std::chrono::milliseconds limit = std::chrono::seconds(60));

/// Waits for the end of any process (no child of ours); true if it has ended, as far as it can: a zombie counts.
bool wait_until_gone(pid_t pid, std::chrono::milliseconds limit);

}  // namespace tutti::test
