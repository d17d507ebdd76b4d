// The tuner: measures what messages, reductions and algorithms take between the ranks of a group.
//
// First the network model (cost_model.h), then each algorithm of each operation at a few sizes. Calls that some ranks
// leave early end with a barrier, which is part of their time.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/process_group.h>
#include <tutti/tools/bench/operations.h>

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// What one thing takes that all ranks of a group do together, measured in batches. A batch begins at a barrier and is
/// some milliseconds of calls that follow one another, as calls do in a program. Its time by the number of calls is a
/// mean; of the ranks the slowest counts, of the batches the mean of the faster half. A disturbance only ever adds
/// time, hence the faster ones. A mean, because on a machine with two speeds means of parts add up to the whole's; of
/// medians one may be a fast batch and the next a slow one. Machines change their speed from one quarter of a second to
/// the next: what is to be compared is measured in turns, a batch each, again and again.
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

struct TuneOptions {
  double seconds = 3.5;  // about so long in all: sizes that have not been begun by then are left out
};

/// Equal on all ranks. The group chooses its algorithms as before afterwards. Needs two ranks or more.
comm::Tuning tune(comm::ProcessGroup& group, const TuneOptions& options);

void print_tuning(std::ostream& out, const comm::Tuning& tuning);

/// Times one operation by one algorithm.
class OperationMeter {
 public:
  OperationMeter(comm::ProcessGroup& group, comm::OpKind op, std::size_t count, std::string_view algorithm);
  OperationMeter(const OperationMeter&) = delete;
  OperationMeter& operator=(const OperationMeter&) = delete;

  void measure(comm::ProcessGroup& group) { meter_.measure(group); }
  double seconds() const { return meter_.seconds(); }

 private:
  const bench::Operation& operation_;
  bench::Case case_;
  std::vector<float> input_;
  std::vector<float> output_;
  Meter meter_;
};

/// The algorithms of `op` that comm would consider for this group.
std::vector<std::string> candidates(comm::ProcessGroup& group, comm::OpKind op);

/// The row of bench's table.
const bench::Operation& operation_of(comm::OpKind op);

}  // namespace tutti::tools
