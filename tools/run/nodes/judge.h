// What is told of a round, on one node or several: the table at its beginning, and at its end who is to blame. Pure
// functions.
//
// The rules are those of report.h over all ranks of all nodes, with times brought to the coordinator's clock; a node
// that was lost counts as a death by a foreign signal of everything on it.
#pragma once

#include <tutti/tools/run/nodes/messages.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// A node whose agent is gone: killed, frozen, or cut off.
struct LostNode {
  int node = 0;
  std::string text;  // "node 1 (host b, agent pid 77) was lost: ..."
  RankEnd::Clock::time_point at{};
};

struct RoundEnd {
  RoundPlan plan;
  std::map<int, Report> ended;  // by node
  std::vector<LostNode> lost;
  std::optional<int> interrupted_by;  // a signal
  std::string interrupted_text;       // "node 1 (host b) was stopped by SIGTERM"
};

/// Or an elastic job went on without it.
inline bool ended_well(const RankEnd& rank) { return !rank.running && (rank.code == 0 || rank.replaced); }

struct Judgement {
  bool all_well = false;
  int status = 0;       // the first failing rank's own; 128 + signal; 1 for a lost node
  std::string summary;  // "" if all is well
};

Judgement judge(const RoundEnd& end);

/// Which rank is where, for the beginning of a round: `started` has each node's ranks. One line for each rank (for each
/// node, where there are more than 64 ranks), under a line about the job.
std::string round_table(const RoundPlan& plan, const std::map<int, std::vector<RankEnd>>& started);

}  // namespace tutti::tools
