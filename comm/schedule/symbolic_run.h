// SymbolicRun: performs schedules on symbols instead of numbers; the half of the checker that looks at data.
//
// Thread-safety: pure function.
#pragma once

#include <tutti/comm/schedule/step_graph.h>

#include <span>
#include <string>

namespace tutti::comm {

/// Performs the steps of `graph` in `order` (completion_order()) and compares what each rank has in the end with what
/// `problem` asks for; returns the first fault, or "". The slices are those of `schedules`: the graph's own or, with
/// `in_place`, those with Input in Output at in_place_offset(). Needs 8 bytes per element of every buffer.
///
/// An element is (index of an input element, expression over ranks). Reducing elements of different indices is a fault,
/// as is reading what nothing has written. Equal expressions have equal numbers, so comparing numbers across ranks
/// tells whether all_reduce gives the same bits everywhere.
std::string symbolic_run(const Problem& problem, std::span<const Schedule> schedules, const StepGraph& graph,
                         std::span<const StepGraph::Node> order, bool in_place);

}  // namespace tutti::comm
