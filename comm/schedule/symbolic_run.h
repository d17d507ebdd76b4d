// SymbolicRun: performs schedules on symbols instead of numbers; the half of the checker that looks at data.
//
// Thread-safety: pure function.
#pragma once

#include <tutti/comm/schedule/completion_order.h>
#include <tutti/comm/schedule/schedule.h>

#include <span>
#include <string>

namespace tutti::comm {

/// Replays `events` and compares what each rank has in the end with what `problem` asks for; returns the first fault,
/// or
/// "". With `in_place` the root's Input and Output of a reduce are one memory. Needs 8 bytes per element of every
/// buffer.
///
/// An element is (index of an input element, expression over ranks). Reducing elements of different indices is a fault,
/// as is reading what nothing has written. Equal expressions have equal numbers, so comparing numbers across ranks
/// tells whether all_reduce gives the same bits everywhere.
std::string symbolic_run(const Problem& problem, std::span<const Schedule> schedules, std::span<const Event> events,
                         bool in_place);

}  // namespace tutti::comm
