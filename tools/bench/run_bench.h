// A bench run: the rows of each operation, measured within a group, and what becomes of them.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/bench/operations.h>
#include <tutti/tools/bench/options.h>
#include <tutti/tools/bench/results.h>

#include <ostream>
#include <span>
#include <vector>

namespace tutti::tools::bench {

/// Measures `table` at all sizes; rank 0 prints the table to `out`. An operation that needs more ranks is left out with
/// a line that says so. Returns the rows, equal on all ranks; throws what the operations throw.
std::vector<Result> run_in_group(comm::ProcessGroup& group, std::span<const Operation> table,
                                 const BenchOptions& options, std::ostream& out);

/// One rank's part from the environment to the exit status: forms the group that `World::detect` describes, measures,
/// prints, and rank 0 writes options.json. 0: done; 1: a result was wrong, or the run failed, with a sentence on `err`;
/// 2: wrong usage.
int run_bench(std::span<const Operation> table, const BenchOptions& options, std::ostream& out,
              std::ostream& err) noexcept;

/// 1 if an element was wrong, else 0.
int exit_status(std::span<const Result> results);

}  // namespace tutti::tools::bench
