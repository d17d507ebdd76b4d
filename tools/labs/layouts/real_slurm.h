// The student's commands under the Slurm of this host, where cluster.txt says that it is the cluster meant.
//
// Only options that command_line.h has understood are passed on, with a program of ours in the place of the student's.
#pragma once

#include <tutti/tools/labs/layouts/placement.h>

#include <chrono>
#include <string>
#include <vector>

namespace tutti::labs::layouts {

/// What each step printed of itself; steps of a script run in one allocation of `job`, a single line (job == nullptr)
/// by itself. Blocks until they are done, at most `deadline`. Throws PlacementError with Slurm's own words.
std::vector<Layout> run_on_slurm(const Options* job, const std::vector<Options>& steps,
                                 std::chrono::seconds deadline = std::chrono::seconds(60));

/// "-N 3 -n 9": as Slurm takes them.
std::string arguments_of(const Options& options);

}  // namespace tutti::labs::layouts
