// The system calls that a submission's process may make, as a program for the kernel (seccomp, mode filter).
//
// Allowed is what a computation needs: memory, its own descriptors, time, its end. Whatever else is tried raises SIGSYS
// in the process, whose driver says what it was (driver/faults.h); the call itself does not happen. Calls of another
// architecture kill the process.
//
// The filter is in force before the submission's first instruction, so that it must let one execveat() pass: the one
// whose path pointer is a secret address, drawn for each process, which nothing in the new program knows.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::labs {

class SubmissionFilter {
 public:
  SubmissionFilter();

  /// Puts the filter on this process, for good. `pid` is its own, `secret_address` the path pointer of the one
  /// execveat() to pass. False with errno if the kernel refuses. Async-signal-safe.
  bool install(std::uint32_t pid, std::uint64_t secret_address) noexcept;

 private:
  struct Slot {
    std::size_t instruction;
    enum class Value : std::uint8_t { Pid, SecretLow, SecretHigh } value;
  };
  std::vector<sock_filter> program_;
  std::vector<Slot> slots_;
};

/// What a refused system call means to people: its name, the diagnosis (diagnosis.h), and what it does.
struct RefusedCall {
  std::string name;       // "openat", "system call 312"
  std::string diagnosis;  // kForbidden if it is nothing in particular
  std::string meaning;    // "opens a file"; empty if it is nothing in particular
};
RefusedCall refused_call(std::int64_t number, std::uint64_t first_argument);

}  // namespace tutti::labs
