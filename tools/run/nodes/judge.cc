#include <tutti/comm/base/format.h>
#include <tutti/tools/run/attempt.h>
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

// All ranks whose end is known, and the node of each.
struct Ranks {
  std::vector<RankEnd> ends;
  std::vector<int> node;
};

Ranks all_ranks(const RoundEnd& end) {
  Ranks ranks;
  for (const auto& [node, ended] : end.ended) {
    for (const RankEnd& rank : ended.ranks) {
      ranks.ends.push_back(rank);
      ranks.node.push_back(node);
    }
  }
  return ranks;
}

std::string lines_of_others(const RoundEnd& end, const Ranks& ranks, std::optional<int> culprit) {
  std::string text;
  for (std::size_t i = 0; i < ranks.ends.size(); ++i) {
    if (culprit != static_cast<int>(i) && !ranks.ends[i].replaced) text += "  " + describe_other(ranks.ends[i]) + "\n";
  }
  for (const LostNode& lost : end.lost) text += "  " + lost.text + "\n";
  return text;
}

std::string tail_of(const Ended& ended, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  if (ended.tail_told) return "";
  std::string text = ended.tail.empty() ? "  " + name + " printed nothing\n" : "  last lines of " + name + ":\n";
  for (const std::string& line : ended.tail) text += "    | " + line + "\n";
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

const Ended* not_started(const RoundEnd& end, int& node) {
  for (const auto& [number, ended] : end.ended) {
    node = number;
    if (!ended.cannot_start.empty()) return &ended;
  }
  return nullptr;
}

Judgement interrupted(const RoundEnd& end, const Ranks& ranks, std::optional<int> culprit) {
  Judgement result;
  result.summary = end.interrupted_text + "\n" + lines_of_others(end, ranks, std::nullopt);
  result.status = culprit ? ranks.ends[static_cast<std::size_t>(*culprit)].exit_status() : 128 + *end.interrupted_by;
  return result;
}

Judgement culprit_found(const RoundEnd& end, const Ranks& ranks, int culprit) {
  const RankEnd& failed = ranks.ends[static_cast<std::size_t>(culprit)];
  const Ended& ended = end.ended.at(ranks.node[static_cast<std::size_t>(culprit)]);
  Judgement result;
  result.status = failed.exit_status();
  const std::string last_words = ended.first_failed == failed.rank ? ended.hint + tail_of(ended, failed.rank) : "";
  result.summary = first_sentence(ranks.ends, culprit) + "\n" + last_words + lines_of_others(end, ranks, culprit);
  return result;
}

}  // namespace

Judgement judge(const RoundEnd& end) {
  const Ranks ranks = all_ranks(end);
  const std::optional<int> culprit = find_culprit(ranks.ends);
  int node = 0;
  if (const Ended* ended = not_started(end, node)) {
    return {false, ended->status,
            node_name(end.plan, node) + " could not start its ranks: " + ended->cannot_start + "\n"};
  }
  const bool all_well = end.lost.empty() && std::all_of(ranks.ends.begin(), ranks.ends.end(), ended_well);
  if (all_well) return {true, 0, ""};
  if (end.interrupted_by) return interrupted(end, ranks, culprit);
  const RankEnd* const failed = culprit ? &ranks.ends[static_cast<std::size_t>(*culprit)] : nullptr;
  if (const LostNode* lost = lost_first(end, failed)) {
    RoundEnd others = end;
    std::erase_if(others.lost, [&](const LostNode& other) { return other.node == lost->node; });
    return {false, 1, lost->text + "\n" + lines_of_others(others, ranks, std::nullopt)};
  }
  if (culprit) return culprit_found(end, ranks, *culprit);
  return {false, 1, "a rank could not be stopped\n" + lines_of_others(end, ranks, std::nullopt)};
}

std::string round_table(const RoundPlan& plan, const std::map<int, Started>& started) {
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
    const Started& here = started.at(static_cast<int>(node));
    for (std::size_t local = 0; local < here.pids.size(); ++local)
      add(std::to_string(place.first_rank + static_cast<int>(local)), here.pids[local],
          local < here.cores.size() ? here.cores[local] : cores);
  }
  return "job " + plan.job_id + ", round " + std::to_string(plan.round) + ": " + std::to_string(plan.world_size) +
         " ranks on " + std::to_string(plan.nodes.size()) + " nodes; " + plan.about + "; ranks meet at port " +
         (plan.store_port == 0 ? "" : std::to_string(plan.store_port) + ", PyTorch's at ") +
         std::to_string(plan.master_port) +
         comm::format("\n  %-9s  %-4s  %-15s  %-9s  %-15s  cores\n", each_rank ? "rank" : "ranks", "node", "host",
                      each_rank ? "pid" : "agent pid", "address") +
         rows;
}

Ended describe_end(const Attempt& attempt) {
  Ended ended;
  ended.ranks = attempt.ends();
  const std::optional<int> index = find_culprit(ended.ranks);
  if (!index) return ended;
  const RankEnd& failed = ended.ranks[static_cast<std::size_t>(*index)];
  ended.first_failed = failed.rank;
  ended.hint = hint(failed);
  const auto& lines = attempt.output(*index).tail();
  ended.tail.assign(lines.begin(), lines.end());
  ended.tail_told = attempt.output(*index).told_uncaught();
  return ended;
}

}  // namespace tutti::tools
