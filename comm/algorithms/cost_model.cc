#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/algorithms/hosts.h>
#include <tutti/comm/algorithms/table.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace tutti::comm {
namespace {

using algorithms::bytes_of;
using algorithms::Cost;
using algorithms::Ranks;

/// Whether no rank has anything to tell another.
bool is_idle(const Problem& problem) {
  if (problem.world_size == 1) return true;
  if (problem.op == OpKind::Barrier || problem.op == OpKind::Shutdown) return false;
  return bytes_of(problem, 1) == 0;
}

bool is_on_one_host(const Problem& problem) {
  return !problem.hosts.empty() &&
         std::adjacent_find(problem.hosts.begin(), problem.hosts.end(), std::not_equal_to<>()) == problem.hosts.end();
}

bool is_rooted(OpKind op) {
  return op == OpKind::Gather || op == OpKind::GatherV || op == OpKind::Scatter || op == OpKind::ScatterV;
}

/// What must pass some rank's port in one direction, and between how many ranks.
struct Crowd {
  double bytes = 0;
  double ranks = 0;
};

/// Of operations that move blocks: all of them but the root's, from or to it; or but the shortest, to or from the rank
/// that has it.
Crowd crowd_of_blocks(const Problem& problem, double element_bytes) {
  Crowd crowd{0, is_rooted(problem.op) ? 1.0 : static_cast<double>(problem.world_size)};
  double shortest = HUGE_VAL;
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const double block = static_cast<double>(block_of(problem, rank).count) * element_bytes;
    shortest = std::min(shortest, block);
    if (is_rooted(problem.op) && (rank == problem.root || block == 0)) continue;
    crowd.bytes += block;
    if (is_rooted(problem.op)) ++crowd.ranks;
  }
  if (!is_rooted(problem.op)) crowd.bytes -= shortest;
  return crowd;
}

Crowd crowd_of(const Problem& problem, double element_bytes) {
  const double p = problem.world_size;
  const double n = static_cast<double>(problem.count) * element_bytes;
  switch (problem.op) {
    case OpKind::AllReduce:
      return {2 * (p - 1) / p * n, p};
    case OpKind::Reduce:
    case OpKind::Broadcast:
      return {n, p};
    case OpKind::Barrier:
    case OpKind::Shutdown:
      return {0, p};
    default:
      return crowd_of_blocks(problem, element_bytes);
  }
}

}  // namespace

std::optional<double> predicted_seconds(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                                        const NetworkModel& network) {
  const algorithms::Entry* entry = algorithms::find_entry(problem.op, algorithm);
  if (entry == nullptr) return std::nullopt;
  if (is_idle(problem)) return 0.0;
  const int p = problem.world_size;
  const double bytes = bytes_of(problem, element_bytes) / (has_counts(problem.op) ? p : 1);
  const auto segment = static_cast<double>(algorithms::segment_count(problem, algorithm) * element_bytes);
  const double segments = segment == 0 ? 1 : std::max(1.0, std::ceil(bytes / segment));
  const auto seconds = [&](const Cost& cost, bool is_local) {
    return cost.messages * network.message_seconds(0, is_local) +
           cost.sent * bytes * (is_local ? network.local_beta : network.beta) + cost.added * bytes * network.gamma;
  };
  if (!entry->has(algorithms::kNeedsHosts)) return seconds(entry->cost(Ranks(p, segments)), is_on_one_host(problem));
  const algorithms::Hosts hosts(problem, problem.root);
  const auto host_count = static_cast<int>(hosts.members.size());
  const double parts = hosts.smallest();
  return seconds(entry->cost(Ranks(host_count, segments, parts)), false) +
         seconds(entry->cost_within(Ranks(hosts.largest(), segments, parts)), true);
}

double lower_bound_seconds(const Problem& problem, std::size_t element_bytes, const NetworkModel& network) {
  if (is_idle(problem)) return 0;
  const bool some_are_local = !problem.hosts.empty();
  const double alpha = some_are_local ? std::min(network.alpha, network.local_alpha) : network.alpha;
  const double beta = some_are_local ? std::min(network.beta, network.local_beta) : network.beta;
  const Crowd crowd = crowd_of(problem, static_cast<double>(element_bytes));
  const double latency = Ranks(static_cast<int>(crowd.ranks), 1).lg_p * alpha;
  double sums = 0;
  if (is_reduction(problem.op)) {  // p - 1 times what one rank has, done by p ranks
    const bool has_blocks = problem.op == OpKind::ReduceScatter;
    const double p = problem.world_size;
    sums = (p - 1) / p * bytes_of(problem, element_bytes) * (has_blocks ? p : 1) * network.gamma;
  }
  return std::max({latency, crowd.bytes * beta, sums});
}

}  // namespace tutti::comm
