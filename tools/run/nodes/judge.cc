#include <tutti/comm/base/format.h>
#include <tutti/tools/run/nodes/judge.h>

#include <algorithm>

namespace tutti::tools {
namespace {

constexpr int kMostRankLines = 64;

std::string ranks_of(const NodePlace& node) {
  const std::string first = std::to_string(node.first_rank);
  return node.nproc == 1 ? first : first + "-" + std::to_string(node.first_rank + node.nproc - 1);
}

std::string node_name(const RoundPlan& plan, int node) {
  return "node " + std::to_string(node) + " (" + plan.nodes[static_cast<std::size_t>(node)].host + ")";
}

// All ranks whose end is known.
using Ranks = std::vector<RankEnd>;

Ranks all_ranks(const RoundEnd& end) {
  Ranks ranks;
  for (const auto& [node, ended] : end.ended) ranks.insert(ranks.end(), ended.ranks.begin(), ended.ranks.end());
  return ranks;
}

std::string lines_of_others(const RoundEnd& end, const Ranks& ranks, const RankEnd* culprit) {
  std::string text;
  for (const RankEnd& rank : ranks) {
    if (&rank != culprit && !rank.replaced) text += "  " + describe_other(rank) + "\n";
  }
  for (const LostNode& lost : end.lost) text += "  " + lost.text + "\n";
  return text;
}

std::string last_lines_of(const RankEnd& rank) {
  if (rank.error_told) return "";
  const std::string name = "rank " + std::to_string(rank.rank);
  std::string text = rank.last_lines.empty() ? "  " + name + " printed nothing\n" : "  last lines of " + name + ":\n";
  for (const std::string& line : rank.last_lines) text += "    | " + line + "\n";
  return text;
}

// The node that was lost before anything else went wrong. Ranks that exit because of it may be seen to do so first.
const LostNode* lost_first(const RoundEnd& end, const RankEnd* culprit) {
  const LostNode* first = nullptr;
  for (const LostNode& lost : end.lost) {
    if (first == nullptr || lost.at < first->at) first = &lost;
  }
  if (first == nullptr || culprit == nullptr) return first;
  const bool in_time = culprit->by_signal ? first->at <= culprit->ended : first->at <= culprit->ended + kSettleTime;
  return in_time ? first : nullptr;
}

}  // namespace

Judgement judge(const RoundEnd& end) {
  const Ranks ranks = all_ranks(end);
  const std::optional<int> culprit = find_culprit(ranks);
  const RankEnd* const failed = culprit ? &ranks[static_cast<std::size_t>(*culprit)] : nullptr;
  for (const auto& [node, ended] : end.ended) {
    if (!ended.cannot_start.empty())
      return {false, ended.status,
              node_name(end.plan, node) + " could not start its ranks: " + ended.cannot_start + "\n"};
  }
  const bool all_well = end.lost.empty() && std::all_of(ranks.begin(), ranks.end(), ended_well);
  if (all_well) return {true, 0, ""};
  if (end.interrupted_by)
    return {false, failed != nullptr ? failed->exit_status() : 128 + *end.interrupted_by,
            end.interrupted_text + "\n" + lines_of_others(end, ranks, nullptr)};
  if (const LostNode* lost = lost_first(end, failed)) {
    RoundEnd others = end;
    std::erase_if(others.lost, [&](const LostNode& other) { return other.node == lost->node; });
    return {false, 1, lost->text + "\n" + lines_of_others(others, ranks, nullptr)};
  }
  if (failed == nullptr) return {false, 1, "a rank could not be stopped\n" + lines_of_others(end, ranks, nullptr)};
  return {false, failed->exit_status(),
          first_sentence(ranks, *culprit) + "\n" + hint(*failed) + last_lines_of(*failed) +
              lines_of_others(end, ranks, failed)};
}

std::string round_table(const RoundPlan& plan, const std::map<int, std::vector<RankEnd>>& started) {
  constexpr char kRow[] = "  %-9s  %-4zu  %-15s  %-9d  %-15s  %s\n";
  const bool each_rank = plan.world_size <= kMostRankLines;
  std::string rows;
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    const NodePlace& place = plan.nodes[node];
    const std::string cores = std::to_string(place.cores) + " of the node";
    const auto add = [&](const std::string& ranks, int pid, const std::string& on) {
      rows += comm::format(kRow, ranks.c_str(), node, place.host.c_str(), pid, place.address.c_str(), on.c_str());
    };
    if (!each_rank) {
      add(ranks_of(place), place.pid, cores);
      continue;
    }
    for (const RankEnd& rank : started.at(static_cast<int>(node)))
      add(std::to_string(rank.rank), rank.pid, rank.cpus.empty() ? cores : rank.cpus);
  }
  return "job " + plan.job_id + ", round " + std::to_string(plan.round) + ": " + std::to_string(plan.world_size) +
         " ranks on " + std::to_string(plan.nodes.size()) + " nodes; " + plan.about + "; ranks meet at port " +
         (plan.store_port == 0 ? "" : std::to_string(plan.store_port) + ", PyTorch's at ") +
         std::to_string(plan.master_port) +
         comm::format("\n  %-9s  %-4s  %-15s  %-9s  %-15s  cores\n", each_rank ? "rank" : "ranks", "node", "host",
                      each_rank ? "pid" : "agent pid", "address") +
         rows;
}

}  // namespace tutti::tools
