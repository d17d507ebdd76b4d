// Meter: what one thing takes that all ranks of a group do together, measured in batches.
//
// A batch begins at a barrier and is some milliseconds of calls that follow one another, as calls do in a program. Its
// time by the number of calls is a mean; of the ranks the slowest counts, of the batches the mean of the faster half. A
// disturbance only ever adds time, hence the faster ones. A mean, because on a machine with two speeds means of parts
// add up to the whole's; of medians one may be a fast batch and the next a slow one. Machines change their speed from
// one quarter of a second to the next: what is to be compared is measured in turns, a batch each, again and again.
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
  std::vector<double> batches_;
};

}  // namespace tutti::tools
