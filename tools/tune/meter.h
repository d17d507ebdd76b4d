// Meter: what one thing takes that all ranks of a group do together, measured in batches.
//
// A batch begins at a barrier and is some milliseconds of calls that follow one another, as calls do in a program. Its
// time by the number of calls is a mean, so that the parts of an operation add up to the whole; of the batches the
// median counts, of the ranks the slowest. Machines change their speed from one quarter of a second to the next: what
// is to be compared is measured in turns, a batch each, again and again.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/comm/process_group.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tutti::tools {

class Meter {
 public:
  /// `call` is what is timed, by `algorithm` where it is one of the group's operations.
  Meter(std::string algorithm, std::function<void()> call);

  /// One batch. Afterwards the group chooses its algorithms again.
  void measure(comm::ProcessGroup& group);

  /// Of one call; equal on all ranks. 0 before the first batch.
  double seconds() const;

 private:
  std::string algorithm_;
  std::function<void()> call_;
  std::size_t calls_ = 0;  // of a batch
  std::vector<double> batches_;
};

}  // namespace tutti::tools
