#include <tutti/comm/algorithms/cost_model.h>
#include <tutti/comm/algorithms/cost_terms.h>
#include <tutti/comm/algorithms/hosts.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// --- What several operations are made of

/// k pieces through p - 1 stages, of which each takes `stage` and lets a piece in every `interval`.
double pipeline(const Terms& t, double k, double stage, double interval) {
  return (t.p - 1) * stage + (k - 1) * interval;
}

/// On a network by alpha and beta: messages of a double tree that follow one another until the first pieces are
/// through, and those that each further pair of pieces adds. Read off simulations of 2 to 100 ranks: a rank must pass 2
/// messages each way for a pair (4 in all_reduce), and its partners are not always ready in turn.
struct TreePace {
  double first;
  double further;
};

TreePace tree_pace(OpKind op, const Terms& t) {
  const bool both_ways = op == OpKind::AllReduce;
  if (t.p == 2) return {both_ways ? 3.0 : 2.0, 2};
  if (t.p == 3) return {both_ways ? 5.0 : 3.0, both_ways ? 3.0 : 2.0};
  const double first = both_ways ? 4 * t.lg_p - 1 : 2 * t.lg_p;
  return {first, both_ways ? 5.5 : op == OpKind::Broadcast ? 2.5 : 3.0};
}

/// Where messages were measured, CPUs are the bottleneck: the first piece goes up and down the tree in hops,
/// and the ranks, which are awake, pass all others; each sends and receives (p - 1)/p of them on average. More than two
/// ranks pass some of these while an all_reduce's first piece is on its way: 3 and 4 of them were measured to save a
/// hop.
double measured_double_tree(OpKind op, const Terms& t) {
  const double ways = op == OpKind::AllReduce ? 2 : 1;
  const double k = t.segments_of(t.n / 2);
  const double bytes = t.n / 2 / k;
  const double piece = std::max(t.repeat(bytes), t.repeat(t.n) * bytes / t.n);
  const double pieces = std::max(0.0, ways * 2 * k * (t.p - 1) / t.p - 1);
  const double sums = op == OpKind::Broadcast ? 0 : t.reduction(t.n) * (t.p - 1) / t.p;
  const double hops = ways * t.lg_p - (op == OpKind::AllReduce && t.p > 2 ? 1 : 0);
  return hops * t.hop(bytes) + pieces * piece + sums;
}

/// Segments are added while others come; but where messages were measured CPUs are the bottleneck: nothing
/// comes meanwhile, and what was measured was cut.
double ring_all_reduce(const Terms& t) {
  const double bytes = t.n / t.p;
  const double message = t.message(bytes);
  const double sum = t.reduction(bytes);
  const double k = t.segments_of(bytes);
  if (k == 1 || !t.network->measured.empty()) return (t.p - 1) * (2 * message + sum);
  const double pieces = message + (k - 1) * t.message(0);
  return (t.p - 1) * (std::max(pieces, sum) + pieces);
}

double recursive_doubling(const Terms& t) { return t.lg_q * (t.exchange(t.n) + t.reduction(t.n)) + t.fold(); }

double rabenseifner(const Terms& t) {
  if (t.p == 2 && t.network->measured.empty()) return ring_all_reduce(t);  // the same messages, and the same pieces
  double sum = t.fold();
  for (double part = 2; part <= t.q; part *= 2) sum += 2 * t.exchange(t.n / part) + t.reduction(t.n / part);
  sum += t.repeat(t.n / t.q) - t.exchange(t.n / t.q);  // the last halving and the first doubling: the same partners
  return sum;
}

double chain_broadcast(const Terms& t) {
  const double k = t.segments_of(t.n);
  const double message = t.message(t.n / k);
  return pipeline(t, k, message, message);
}

double chain_reduce(const Terms& t) {
  const double k = t.segments_of(t.n);
  const double message = t.message(t.n / k);
  const double reduction = t.reduction(t.n / k);
  return pipeline(t, k, message + reduction, std::max(message, reduction));
}

double binomial_broadcast(const Terms& t) { return t.lg_p * t.hop(t.n); }
double binomial_reduce(const Terms& t) { return t.lg_p * (t.hop(t.n) + t.reduction(t.n)); }

/// p - 1 messages of one rank to all others, or of these to it. Where messages were measured, CPUs are the
/// bottleneck: each after the first one takes what a rank's share is of a round in which all send. That rank's CPU has
/// the bytes of all of them in its caches, so they take no less than those of one message as long.
double by_one_rank(const Terms& t, double bytes) {
  if (t.network->measured.empty()) return (t.p - 1) * t.message(bytes);
  const double repeat = std::max(t.repeat(bytes), t.repeat((t.p - 1) * bytes) / (t.p - 1));
  return t.hop(bytes) + (t.p - 2) * repeat / t.p;
}

/// all_reduce of two ranks, one of which adds what the other one has: between the first piece and the last, those that
/// come back meet those that are on their way there.
double there_and_back(const Terms& t) {
  const double k = t.segments_of(t.n);
  const double bytes = t.n / k;
  const double piece = std::max(t.repeat(bytes), t.repeat(t.n) / k);
  const double sum = t.reduction(bytes);
  if (t.network->measured.empty()) return 2 * t.hop(bytes) + sum + (k - 1) * std::max(t.message(bytes), sum);
  return 2 * t.hop(bytes) + (k - 1) * piece + k * sum;
}

/// Of broadcast, reduce and all_reduce.
double double_tree(OpKind op, const Terms& t) {
  if (!t.network->measured.empty()) return measured_double_tree(op, t);
  const double k = t.segments_of(t.n / 2);
  const double message = t.message(t.n / 2 / k);
  const double reduction = op == OpKind::Broadcast ? 0 : t.reduction(t.n / 2 / k);
  const TreePace pace = tree_pace(op, t);
  return pace.first * message + pace.further * (k - 1) * std::max(message, reduction) + t.lg_p * reduction;
}

struct HostTerms {
  Terms within;
  Terms among;
  double smallest;  // ranks of a host
};

HostTerms host_terms(const Problem& problem, const Terms& flat) {
  const algorithms::Hosts hosts(problem, problem.root);
  double largest = 0;
  for (const auto& members : hosts.members) largest = std::max(largest, static_cast<double>(members.size()));
  const double n = flat.n;
  return {Terms(*flat.network, true, largest, n, flat.segment_bytes),
          Terms(*flat.network, false, static_cast<double>(hosts.members.size()), n, flat.segment_bytes),
          static_cast<double>(hosts.smallest())};
}

double hierarchical_split(const HostTerms& hosts) {
  const double part = hosts.within.n / hosts.smallest;
  Terms among = hosts.among;
  among.n = part;
  const Terms& within = hosts.within;
  return (within.p - 1) * (2 * within.message(part) + within.reduction(part)) + rabenseifner(among);
}

// --- Each operation

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

/// Gather and scatter, v-forms too: the others' blocks through the root's port, in as many messages as the algorithm
/// makes of them.
Seconds rooted_blocks_seconds(const Problem& problem, const Terms& t, double element_bytes,
                              std::string_view algorithm) {
  if (algorithm == "binomial") return t.halving_messages(t.n);
  if (algorithm != "direct" && algorithm != "linear") return std::nullopt;
  double sum = 0;
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const std::size_t count = block_of(problem, rank).count;
    if (rank != problem.root && count > 0) sum += t.message(static_cast<double>(count) * element_bytes);
  }
  return sum;
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
    case OpKind::AllGatherV:
    case OpKind::Split:
      return all_gather_seconds(problem, t, algorithm);
    case OpKind::Gather:
    case OpKind::GatherV:
    case OpKind::Scatter:
    case OpKind::ScatterV:
      return rooted_blocks_seconds(problem, t, static_cast<double>(element_bytes), algorithm);
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterV:
      return reduce_scatter_seconds(t, algorithm);
    case OpKind::AllToAll:
      return all_to_all_seconds(t, algorithm);
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
