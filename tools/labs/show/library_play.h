// The library's side of the page: the same call done by a schedule of comm's, on the same network, with real values.
//
// The schedules are those the runtime executes (comm/algorithms); times are the simulator's (comm/schedule).
// Thread-safety: pure functions.
#pragma once

#include <tutti/comm/schedule/schedule.h>
#include <tutti/tools/labs/lab_case.h>
#include <tutti/tools/labs/play.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::labs {

/// `function` is a name of lab.h's macros ("reduce", "all_reduce_many", "shift", ...). `algorithm` is one of
/// comm/algorithms; empty: the one that the library would choose on this network. Elements are words (play.h), whatever
/// posed.type is, and there is one call, whatever posed.repetitions is; messages are never late.
/// Throws std::invalid_argument when the library has nothing to show for `function`, or the world is not between 1 and
/// kMostPlayRanks; comm::Error when there is no such algorithm.
Play library_play(const std::string& function, const Case& posed, const std::string& algorithm = "");

/// Whether there is something to show for `function`.
bool library_can_play(const std::string& function);

// Internal to tools/labs/show: one schedule for each rank, and how its memory is called (schedules.cc).
namespace show {

/// A buffer as a submission sees it: elements [offset, offset + count) of one of the schedule's.
struct NamedSlice {
  std::string name;
  comm::Slice slice;
  bool is_filled = false;     // with the rank's contribution, before the call
  bool at_root_only = false;  // other ranks have none, or an empty one
};

struct LibraryRun {
  std::vector<comm::Schedule> schedules;
  std::vector<NamedSlice> buffers;  // without the schedule's own memory
  double bound_seconds = 0;
  std::string algorithm;
};

/// As library_play().
LibraryRun library_run(const std::string& function, const Case& posed, const std::string& algorithm);

}  // namespace show

}  // namespace tutti::labs
