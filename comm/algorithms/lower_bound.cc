#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/algorithms/cost_terms.h>

#include <algorithm>

namespace tutti::comm {

namespace {

/// Bytes that must pass one port, and between how many ranks.
struct Crowd {
  double bytes = 0;
  double ranks = 0;
};

/// The root's: it hears from, or feeds, all others that have something.
Crowd crowd_at_root(const Problem& problem, double element_bytes) {
  Crowd crowd{0, 1};
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const std::size_t count = block_of(problem, rank).count;
    if (rank == problem.root || count == 0) continue;
    crowd.bytes += static_cast<double>(count) * element_bytes;
    crowd.ranks += 1;
  }
  return crowd;
}

/// All blocks but the shortest: what the rank with that one receives of the others', or gives away where sums are made.
double longest_way(const Problem& problem, double element_bytes) {
  std::size_t shortest = block_of(problem, 0).count;
  for (int rank = 1; rank < problem.world_size; ++rank) shortest = std::min(shortest, block_of(problem, rank).count);
  return static_cast<double>(block_of(problem, problem.world_size).offset - shortest) * element_bytes;
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
    case OpKind::Scatter:
    case OpKind::GatherV:
    case OpKind::ScatterV: {
      const Crowd crowd = crowd_at_root(problem, element);
      return std::max(ceil_log2(crowd.ranks) * alpha, crowd.bytes * beta);
    }
    case OpKind::AllGather:
    case OpKind::AllGatherV:
    case OpKind::AllToAll:
    case OpKind::Split:
      return std::max(latency, longest_way(problem, element) * beta);
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterV: {
      const double all = static_cast<double>(block_of(problem, problem.world_size).offset) * element;
      return std::max({latency, longest_way(problem, element) * beta, (t.p - 1) / t.p * t.reduction(all)});
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
