// The table that is shown when a round begins: which rank is where. A pure function.
#pragma once

#include <tutti/tools/run/nodes/messages.h>

#include <map>
#include <string>

namespace tutti::tools {

/// One line for each rank (for each node, where there are more than 64 ranks), under a line about the job.
std::string round_table(const RoundPlan& plan, const std::map<int, Started>& started);

}  // namespace tutti::tools
