#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/algorithms/cost_terms.h>

#include <algorithm>
#include <numeric>

namespace tutti::comm {

namespace {

/// Bytes of the v-forms that must pass one port, and between how many ranks.
struct Crowd {
  double bytes = 0;
  double ranks = 0;
};

/// The root's: it hears from, or feeds, all others that have something.
Crowd crowd_at_root(const Problem& problem, double element_bytes) {
  Crowd crowd{0, 1};
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const std::size_t count = problem.counts[static_cast<std::size_t>(rank)];
    if (rank == problem.root || count == 0) continue;
    crowd.bytes += static_cast<double>(count) * element_bytes;
    crowd.ranks += 1;
  }
  return crowd;
}

/// all_gather_v: the rank with the shortest block receives all others'.
double longest_way_in(const Problem& problem, double element_bytes) {
  const auto total = std::accumulate(problem.counts.begin(), problem.counts.end(), std::size_t{0});
  return static_cast<double>(total - *std::min_element(problem.counts.begin(), problem.counts.end())) * element_bytes;
}

}  // namespace

double lower_bound_seconds(const Problem& problem, std::size_t element_bytes, const NetworkModel& network) {
  if (is_idle(problem)) return 0;
  const Terms t = terms_of(problem, element_bytes, network);
  const auto element = static_cast<double>(element_bytes);
  const bool some_are_local = !problem.hosts.empty();
  const double alpha = some_are_local ? std::min(network.alpha, network.local_alpha) : network.alpha;
  const double beta = some_are_local ? std::min(network.beta, network.local_beta) : network.beta;
  const double latency = t.lg_p * alpha;
  const double wire = t.n * beta;
  const double shared_reduction = (t.p - 1) / t.p * t.reduction(t.n);  // (p - 1) n reductions done by p ranks
  switch (problem.op) {
    case OpKind::AllReduce:
      return std::max({latency, 2 * (t.p - 1) / t.p * wire, shared_reduction});
    case OpKind::Reduce:
      return std::max({latency, wire, shared_reduction});
    case OpKind::Broadcast:
      return std::max(latency, wire);
    case OpKind::Gather:
    case OpKind::AllGather:
    case OpKind::Split:
    case OpKind::Scatter:
    case OpKind::AllToAll:
      return std::max(latency, (t.p - 1) * wire);
    case OpKind::ReduceScatter:
      return std::max({latency, (t.p - 1) * wire, (t.p - 1) * t.reduction(t.n)});
    case OpKind::GatherV:
    case OpKind::ScatterV: {
      const Crowd crowd = crowd_at_root(problem, element);
      return std::max(ceil_log2(crowd.ranks) * alpha, crowd.bytes * beta);
    }
    case OpKind::AllGatherV:
      return std::max(latency, longest_way_in(problem, element) * beta);
    case OpKind::ReduceScatterV: {
      // Each rank gives away all blocks but its own; the one with the shortest most.
      const double away = longest_way_in(problem, element);
      return std::max({latency, away * beta, away / t.p * network.gamma});
    }
    case OpKind::AllToAllV: {
      double away = 0;
      for (int peer = 0; peer < problem.world_size; ++peer)
        if (peer != problem.rank) away += static_cast<double>(sent_block(problem, peer).count) * element;
      return away > 0 ? alpha + away * beta : 0;
    }
    case OpKind::Barrier:
    case OpKind::Shutdown:
      return latency;
    case OpKind::Send:
    case OpKind::Recv:
      return 0;
  }
  return 0;
}

}  // namespace tutti::comm
