// The library's side of the page: the same call done by a schedule of comm's, on the same network, with real values.
//
// The schedules are those the runtime executes (comm/algorithms); times are the simulator's (comm/schedule).
// Thread-safety: pure functions.
#pragma once

#include <tutti/tools/labs/lab_case.h>
#include <tutti/tools/labs/play.h>

#include <string>

namespace tutti::labs {

/// `function` is a name of lab.h's macros ("reduce", "all_reduce_many", "shift", ...). `algorithm` is one of
/// comm/algorithms; empty: the one that the library would choose on this network. Elements are words (play.h), whatever
/// posed.type is, and there is one call, whatever posed.repetitions is; messages are never late.
/// Throws std::invalid_argument when the library has nothing to show for `function`, or the world is not between 1 and
/// kMostPlayRanks; comm::Error when there is no such algorithm.
Play library_play(const std::string& function, const Case& posed, const std::string& algorithm = "");

/// Whether there is something to show for `function`.
bool library_can_play(const std::string& function);

}  // namespace tutti::labs
