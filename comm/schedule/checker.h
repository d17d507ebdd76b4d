// Checker: proves that the schedules of all ranks together perform the collective.
//
// It runs the schedules symbolically: each element of each buffer holds the multiset of (rank, input element) that went
// into it. Pure function; for tests and tools.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <tutti/comm/algorithms/algorithms.h>

namespace tutti::comm {

/// schedules[r] is rank r's. Returns the empty string if the schedules are right, else one sentence with the first thing
/// that is wrong: rank, step index, element, what was expected and what was found. Checks that sends and receives match
/// pairwise with equal counts, that the steps can all complete (no deadlock), that every slice lies inside its buffer,
/// that accesses to the same elements are ordered by `after`, that Input is not written, and that in the end each output
/// element holds each input exactly once (reductions) or exactly the right one (the rest).
std::string check(const algorithms::Problem& problem, std::span<const Schedule> schedules);

}  // namespace tutti::comm
