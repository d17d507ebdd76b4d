// Checker: proves that the schedules of all ranks together perform the collective.
//
// It runs the schedules symbolically (symbolic_run.cc) in an order in which their messages can pass (step_graph.h).
// Pure function; for tests and tools.
//
// It assumes the worst of the executor and the transport: no order between the steps of a rank but `after` and that of
// messages to one peer, and no message that leaves before its receiver is ready for it. Memory: 8 bytes per element of
// all ranks' buffers; keep counts small, the schedules of larger ones have the same shape.
#pragma once

#include <tutti/comm/schedule/step_graph.h>

#include <span>
#include <string>

namespace tutti::comm {

/// schedules[r] is rank r's; problem.rank and problem.segment_count are ignored. Returns the empty string if the
/// schedules are right, else one sentence with the first thing that is wrong: rank, step index, element, what was
/// expected and what was found. Checks that
///  - peers, slices and `after` are within bounds, and Input is not written;
///  - sends and receives match pairwise with equal counts, and all steps can complete (no deadlock);
///  - accesses to the same elements are ordered by `after`, and nothing is read that nothing has written;
///  - in the end each output element holds each input exactly once (reductions) or exactly the right one (the rest);
///  - after all_reduce, operands were combined in the same order on all ranks, so that bits are equal;
///  - where problem.in_order asks for it, operands were combined in the order of their ranks,
///    and where problem.left_fold does, as ((0 + 1) + 2) + ...;
///  - reduce and all_gather are right also where Input lies in Output (in_place_offset());
///  - no rank leaves a barrier before it has heard of all others.
std::string check(const Problem& problem, std::span<const Schedule> schedules);

// --- symbolic_run.cc: schedules on symbols instead of numbers; the half of the checker that looks at data.

/// Performs the steps of `graph` in `order` (completion_order()) and compares what each rank has in the end with what
/// `problem` asks for; throws InvalidArgument with the first fault. The slices are those of `schedules`: the graph's
/// own or, with `in_place`, those with Input in Output at in_place_offset(). Needs 8 bytes per element of every buffer.
///
/// An element is (index of an input element, expression over ranks). Reducing elements of different indices is a fault,
/// as is reading what nothing has written. Equal expressions have equal numbers, so comparing numbers across ranks
/// tells whether all_reduce gives the same bits everywhere.
void symbolic_run(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph,
                  std::span<const StepGraph::Node> order, bool in_place);

}  // namespace tutti::comm
