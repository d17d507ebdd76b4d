// What a user may choose about the ranks of one host: where their output goes and how it looks, which CPUs they get,
// who reads standard input. Values.
#pragma once

#include <tutti/tools/run/stream_map.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct LocalOptions {
  StreamMap redirects{};             // these streams go to log files instead of the terminal ...
  StreamMap tees{};                  // ... and these to both
  std::vector<int> local_filter{};   // local ranks whose lines are shown; none: all
  std::vector<int> rank_filter{};    // the same by global rank
  std::optional<std::string> label;  // a template (label.h)
  bool fold = false;                 // equal lines of several ranks are shown once (line_folder.h)
  bool json = false;                 // each line is shown as a JSON object (line_printer.h)
  bool bind = false;                 // each rank is pinned to its share of the CPUs (cpu_plan.h)
  std::optional<int> stdin_rank;     // the rank that reads the launcher's standard input; nothing: none does
  std::string role = "default";      // ROLE_NAME
};

}  // namespace tutti::tools
