// A process of a submission, confined: what it may do is compute, write a little text, and talk to the referee.
//
//  - A filter of system calls (seccomp_filter.h), in force before its first instruction, is the first wall.
//  - The second one, where the kernel lets us: a user namespace of its own, and an empty folder as its root.
//  - Limits on memory, processor time, and the size of files (0); no core dumps.
//  - Its descriptors are /dev/null, one pipe for its output, and the socket to the referee. Its environment is empty.
//  - A session of its own, and SIGKILL when the grader dies.
//
// Ownership: the object kills and reaps the process. Threads: the calling process should have one (fork).
#pragma once

#include <sys/types.h>
#include <tutti/comm/wire/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace tutti::labs {

using Descriptor = comm::Socket;  // owns one of whatever kind

/// Sets a limit of this process, for good. Async-signal-safe.
void limit(int resource, std::uint64_t most) noexcept;

struct Limits {
  std::size_t memory_bytes = std::size_t{256} << 20;
  unsigned cpu_seconds = 300;  // a second wall: the referee looks at the time between two calls itself
};

class ConfinedProcess {
 public:
  /// Starts `program`, a static executable, with `empty_folder` as its root. Throws std::runtime_error where the kernel
  /// does not confine it, or it cannot be started: nothing of it has run then.
  ConfinedProcess(const std::filesystem::path& program, const std::filesystem::path& empty_folder,
                  const Limits& limits);
  ~ConfinedProcess();
  ConfinedProcess(const ConfinedProcess&) = delete;
  ConfinedProcess& operator=(const ConfinedProcess&) = delete;

  pid_t pid() const { return pid_; }
  int socket() const { return socket_.get(); }  // non-blocking
  int output() const { return output_.get(); }  // non-blocking; both standard output and standard error

  /// Processor time that it has used so far; what it had used at its end once it is dead.
  std::chrono::nanoseconds cpu_time() const;

  /// Waits up to `patience` for its end, then kills it. Its wait status; callable again.
  int end(std::chrono::milliseconds patience);

 private:
  pid_t pid_ = -1;
  Descriptor socket_;
  Descriptor output_;
  bool is_reaped_ = false;
  int status_ = 0;
};

}  // namespace tutti::labs
