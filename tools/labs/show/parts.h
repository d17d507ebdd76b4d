// The parts of the page; HTML, SVG and JSON of a Side. Internal to tools/labs/show.
//
// What comes from a submission is escaped here, and nowhere else. Pure functions.
#pragma once

#include <tutti/tools/labs/show/side.h>

#include <string>
#include <vector>

namespace tutti::labs::show {

/// "10 us", "never".
std::string time_text(double seconds);

/// What may be wider than the page, reachable by keyboard.
std::string scrolling(const std::string& label, const std::string& body);

/// Ranks as lanes, time to the right, messages as lines; `until` is the right edge. Needs no script.
std::string space_time(const Side& side, double until);

/// Waiting time and counts of each rank.
std::string rank_table(const Side& side);

/// All messages in a table, the first ones of a long run.
std::string message_list(const Side& side, const Cells& cells);

/// Who waits for whom in a deadlock, in words; a cycle as a picture, too.
std::string deadlock_box(const Play& play);

/// Where the student's result differs from the library's; empty if nowhere.
std::string difference_box(const Side& student, const std::vector<Difference>& found, const Cells& cells);

/// What the script plays, as JSON that may stand within <script>: no "<" in it. `sides` are in the order of the panels.
std::string data_json(const std::vector<const Side*>& sides, const std::vector<Difference>& found, const Stops& stops,
                      const Cells& cells);

}  // namespace tutti::labs::show
