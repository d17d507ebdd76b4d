// The system calls that a submission's process may make, as a filter of libseccomp's.
//
// Allowed is what a computation needs: memory, its own descriptors, time, its end. Whatever else is tried raises SIGSYS
// in the process, whose driver says what it was (driver/faults.h); the call itself does not happen. Calls of another
// architecture kill the process.
//
// The filter is in force before the submission's first instruction, so that it must let one execveat() pass: the one
// whose path pointer is a secret address, drawn for each process, which nothing in the new program knows.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::labs {

class SubmissionFilter {
 public:
  /// `secret_address` is the path pointer of the one execveat() to pass. Throws std::runtime_error where libseccomp
  /// does not know this machine.
  explicit SubmissionFilter(std::uint64_t secret_address);

  /// Puts the filter on this process, for good. False with errno if the kernel refuses. Async-signal-safe.
  bool install() const noexcept;

 private:
  std::vector<sock_filter> program_;
};

/// What a refused system call means to people: its name, the diagnosis (diagnosis.h), and what it does.
struct RefusedCall {
  std::string name;       // "openat", "system call 3120"
  std::string diagnosis;  // kForbidden if it is nothing in particular
  std::string meaning;    // "opens a file"; empty if it is nothing in particular
};
RefusedCall refused_call(std::int64_t number, std::uint64_t first_argument);

}  // namespace tutti::labs
