// The tuner: measures what messages, reductions and algorithms take between the ranks of a group.
//
// What is measured, in this order: reductions by all ranks at once; ring all_reduces and ring all_gathers, of which one
// makes twice as many rounds as the other, so that their difference gives the time of one message with all ranks busy,
// and the rest the time until all are awake; then each algorithm of each operation at a few sizes. The longest time of
// any rank counts, and of several calls the median. Calls that some ranks leave early end with a barrier, which is part
// of their time.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/comm/schedule/tuning.h>
#include <tutti/tools/bench/operations.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

struct TuneOptions {
  double seconds = 3.5;    // about so long in all: sizes that have not been begun by then are left out
  bool algorithms = true;  // false: only the model
};

/// Equal on all ranks. The group chooses its algorithms as before afterwards. Needs two ranks or more.
comm::Tuning tune(comm::ProcessGroup& group, const TuneOptions& options);

/// Seconds of one call by `algorithm`; equal on all ranks. `budget` is the time for all calls.
double time_of(comm::ProcessGroup& group, const bench::Operation& operation, std::size_t count,
               std::string_view algorithm, double budget);

/// The algorithms of `op` that comm would consider for this group.
std::vector<std::string> candidates(comm::ProcessGroup& group, comm::OpKind op);

/// The row of bench's table.
const bench::Operation& operation_of(comm::OpKind op);

}  // namespace tutti::tools
