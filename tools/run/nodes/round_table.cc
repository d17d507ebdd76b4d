#include <tutti/tools/run/nodes/round_table.h>

#include <algorithm>
#include <vector>

namespace tutti::tools {
namespace {

constexpr int kMostRankLines = 64;

using Row = std::vector<std::string>;

// Columns as wide as their widest cell.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> width;
  for (const Row& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(width[i] - row[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string ranks_of(const NodePlace& node) {
  const std::string first = std::to_string(node.first_rank);
  return node.nproc == 1 ? first : first + "-" + std::to_string(node.first_rank + node.nproc - 1);
}

}  // namespace

std::string round_table(const RoundPlan& plan, const std::map<int, Started>& started) {
  const bool each_rank = plan.world_size <= kMostRankLines;
  std::vector<Row> rows{
      {each_rank ? "rank" : "ranks", "node", "host", each_rank ? "pid" : "agent pid", "address", "cores"}};
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    const NodePlace& place = plan.nodes[node];
    const std::string number = std::to_string(node);
    const std::string cores = std::to_string(place.cores) + " of the node";
    const auto pinned = started.find(static_cast<int>(node));
    if (!each_rank) {
      rows.push_back({ranks_of(place), number, place.host, std::to_string(place.pid), place.address, cores});
      continue;
    }
    const std::vector<int>& pids = started.at(static_cast<int>(node)).pids;
    for (std::size_t local = 0; local < pids.size(); ++local) {
      rows.push_back({std::to_string(place.first_rank + static_cast<int>(local)), number, place.host,
                      std::to_string(pids[local]), place.address,
                      local < pinned->second.cores.size() ? pinned->second.cores[local] : cores});
    }
  }
  return "job " + plan.job_id + ", round " + std::to_string(plan.round) + ": " + std::to_string(plan.world_size) +
         " ranks on " + std::to_string(plan.nodes.size()) + " nodes; " + plan.about + "; ranks meet at port " +
         (plan.store_port == 0 ? "" : std::to_string(plan.store_port) + ", PyTorch's at ") +
         std::to_string(plan.master_port) + "\n" + aligned(rows);
}

}  // namespace tutti::tools
