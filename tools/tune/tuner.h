// The tuner: measures what messages, reductions and algorithms take between the ranks of a group.
//
// First the network model (cost_model.h), then each algorithm of each operation at a few sizes (meter.h says how).
// Calls that some ranks leave early end with a barrier, which is part of their time.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/process_group.h>
#include <tutti/tools/bench/operations.h>
#include <tutti/tools/tune/meter.h>

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

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
