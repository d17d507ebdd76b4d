#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/algorithms/cost_parts.h>

#include <algorithm>

namespace tutti::comm {
namespace {

using Seconds = std::optional<double>;

Seconds all_reduce_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "ring") return ring_all_reduce(t);
  if (algorithm == "recursive_doubling") return recursive_doubling(t);
  if (algorithm == "rabenseifner") return rabenseifner(t);
  if (t.p == 2 && (algorithm == "binomial" || algorithm == "star")) return there_and_back(t);
  if (algorithm == "binomial") return binomial_reduce(t) + binomial_broadcast(t);
  if (algorithm == "star") return 2 * by_one_rank(t, t.n) + (t.p - 1) * t.reduction(t.n);
  if (algorithm == "double_tree") return double_tree(problem.op, t);
  if (algorithm == "hierarchical_split") return hierarchical_split(host_terms(problem, t));
  if (algorithm == "hierarchical") {
    const HostTerms hosts = host_terms(problem, t);
    return binomial_reduce(hosts.within) + recursive_doubling(hosts.among) + binomial_broadcast(hosts.within);
  }
  return std::nullopt;
}

Seconds broadcast_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "binomial") return binomial_broadcast(t);
  if (algorithm == "chain") return chain_broadcast(t);
  if (algorithm == "van_de_geijn") return t.halving_messages(t.n / t.p) + (t.p - 1) * t.message(t.n / t.p);
  if (algorithm == "double_tree") return double_tree(problem.op, t);
  if (algorithm == "hierarchical") {
    const HostTerms hosts = host_terms(problem, t);
    return binomial_broadcast(hosts.among) + binomial_broadcast(hosts.within);
  }
  return std::nullopt;
}

Seconds reduce_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "binomial") return binomial_reduce(t);
  if (algorithm == "chain") return chain_reduce(t);
  if (algorithm == "double_tree") return double_tree(problem.op, t);
  if (algorithm == "hierarchical") {
    const HostTerms hosts = host_terms(problem, t);
    return binomial_reduce(hosts.among) + binomial_reduce(hosts.within);
  }
  return std::nullopt;
}

Seconds all_gather_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "ring") return (t.p - 1) * t.message(t.n);
  if (algorithm == "bruck") return t.doubling_messages(t.n);
  if (algorithm == "star") return by_one_rank(t, t.n) + by_one_rank(t, t.p * t.n);
  if (algorithm == "recursive_doubling") {
    double sum = 0;
    for (double blocks = 1; blocks < t.p; blocks *= 2) sum += t.exchange(std::min(blocks, t.p - blocks) * t.n);
    return sum;
  }
  if (algorithm == "hierarchical") {
    const HostTerms hosts = host_terms(problem, t);
    const Terms& within = hosts.within;
    return (within.p - 1) * within.message(t.n) + (hosts.among.p - 1) * hosts.among.message(within.p * t.n) +
           within.lg_p * within.message(t.p * t.n);
  }
  return std::nullopt;
}

/// Gather and scatter: p - 1 blocks through one port, in as many messages as the algorithm makes of them.
Seconds rooted_blocks_seconds(const Terms& t, std::string_view algorithm) {
  if (algorithm == "direct") return (t.p - 1) * t.message(t.n);
  if (algorithm == "binomial") return t.halving_messages(t.n);
  return std::nullopt;
}

Seconds reduce_scatter_seconds(const Terms& t, std::string_view algorithm) {
  if (algorithm == "ring") return (t.p - 1) * (t.message(t.n) + t.reduction(t.n));
  if (algorithm == "star") return by_one_rank(t, t.p * t.n) + (t.p - 1) * t.reduction(t.p * t.n) + by_one_rank(t, t.n);
  const bool hands_on = algorithm == "recursive_halving" && t.q < t.p;
  if (algorithm == "direct" || hands_on) return (t.p - 1) * (t.message(t.n) + t.reduction(t.n));
  if (algorithm == "recursive_halving") {
    double sum = 0;
    for (double blocks = 1; blocks < t.p; blocks *= 2) sum += t.exchange(blocks * t.n) + t.reduction(blocks * t.n);
    return sum;
  }
  return std::nullopt;
}

Seconds all_to_all_seconds(const Terms& t, std::string_view algorithm) {
  if (algorithm == "pairwise") return (t.p - 1) * t.message(t.n);
  if (algorithm == "bruck") {
    double sum = 0;
    const auto p = static_cast<unsigned>(t.p);
    for (unsigned bit = 1; bit < p; bit *= 2) {
      const unsigned with_bit = p / (2 * bit) * bit + std::max(p % (2 * bit), bit) - bit;  // of 0 .. p - 1
      sum += t.message(with_bit * t.n);
    }
    return sum;
  }
  return std::nullopt;
}

/// gather_v and scatter_v: the others' blocks through the root's port, one by one.
Seconds linear_seconds(const Problem& problem, const Terms& t, double element_bytes) {
  double sum = 0;
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const std::size_t count = problem.counts[static_cast<std::size_t>(rank)];
    if (rank != problem.root && count > 0) sum += t.message(static_cast<double>(count) * element_bytes);
  }
  return sum;
}

/// The longest block makes p - 1 hops, and holds up all others.
Seconds all_gather_v_seconds(const Problem& problem, const Terms& t, double element_bytes) {
  const std::size_t longest = *std::max_element(problem.counts.begin(), problem.counts.end());
  return (t.p - 1) * t.message(static_cast<double>(longest) * element_bytes);
}

/// The longest block holds up all others, in a ring and at the rank that collects it.
Seconds reduce_scatter_v_seconds(const Problem& problem, const Terms& t, double element_bytes) {
  const std::size_t longest = *std::max_element(problem.counts.begin(), problem.counts.end());
  const double bytes = static_cast<double>(longest) * element_bytes;
  return (t.p - 1) * (t.message(bytes) + t.reduction(bytes));
}

/// all_to_all_v, from this rank's point of view: a message to each rank that gets something.
Seconds all_to_all_v_seconds(const Problem& problem, const Terms& t, double element_bytes) {
  double sum = 0;
  for (int peer = 0; peer < problem.world_size; ++peer) {
    const std::size_t count = sent_block(problem, peer).count;
    if (peer != problem.rank && count > 0) sum += t.message(static_cast<double>(count) * element_bytes);
  }
  return sum;
}

Seconds barrier_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "dissemination") return t.lg_p * t.message(0);
  if (algorithm == "star") return 2 * by_one_rank(t, 0);
  if (algorithm == "hierarchical") {
    const HostTerms hosts = host_terms(problem, t);
    return 2 * hosts.within.lg_p * hosts.within.message(0) + hosts.among.lg_p * hosts.among.message(0);
  }
  return std::nullopt;
}

Seconds formula(const Problem& problem, std::size_t element_bytes, std::string_view algorithm, const Terms& t) {
  switch (problem.op) {
    case OpKind::AllReduce:
      return all_reduce_seconds(problem, t, algorithm);
    case OpKind::Broadcast:
      return broadcast_seconds(problem, t, algorithm);
    case OpKind::Reduce:
      return reduce_seconds(problem, t, algorithm);
    case OpKind::AllGather:
    case OpKind::Split:
      return all_gather_seconds(problem, t, algorithm);
    case OpKind::Gather:
    case OpKind::Scatter:
      return rooted_blocks_seconds(t, algorithm);
    case OpKind::ReduceScatter:
      return reduce_scatter_seconds(t, algorithm);
    case OpKind::AllToAll:
      return all_to_all_seconds(t, algorithm);
    case OpKind::GatherV:
    case OpKind::ScatterV:
      return linear_seconds(problem, t, static_cast<double>(element_bytes));
    case OpKind::AllGatherV:
      return all_gather_v_seconds(problem, t, static_cast<double>(element_bytes));
    case OpKind::ReduceScatterV:
      return reduce_scatter_v_seconds(problem, t, static_cast<double>(element_bytes));
    case OpKind::AllToAllV:
      return all_to_all_v_seconds(problem, t, static_cast<double>(element_bytes));
    case OpKind::Barrier:
    case OpKind::Shutdown:
      return barrier_seconds(problem, t, algorithm);
    case OpKind::Send:
    case OpKind::Recv:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> predicted_seconds(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                                        const NetworkModel& network) {
  const auto names = algorithms::names_for(problem.op);
  if (std::find(names.begin(), names.end(), algorithm) == names.end()) return std::nullopt;
  if (is_idle(problem)) return 0.0;
  const Seconds seconds =
      formula(problem, element_bytes, algorithm, terms_of(problem, element_bytes, network, algorithm));
  return seconds ? Seconds(network.startup + *seconds) : std::nullopt;
}

}  // namespace tutti::comm
