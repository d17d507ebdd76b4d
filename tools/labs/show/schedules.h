// What the library does for a function of lab.h: one schedule for each rank, and how its memory is called. Internal to
// tools/labs/show.
#pragma once

#include <tutti/comm/schedule/schedule.h>
#include <tutti/tools/labs/lab_case.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::labs::show {

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

}  // namespace tutti::labs::show
