#include <tutti/comm/algorithms/hosts.h>
#include <tutti/comm/schedule/cost_model.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

namespace tutti::comm {
namespace {

using algorithms::Problem;

double ceil_log2(double value) {
  return value <= 1 ? 0 : static_cast<double>(std::bit_width(static_cast<unsigned>(value) - 1));
}

/// The words in which the formulas are written: some ranks, the links between them, and n bytes a rank.
struct Terms {
  Terms(const NetworkModel& model, bool local, double ranks, double bytes, double segment)
      : network(&model),
        is_local(local),
        p(ranks),
        n(bytes),
        segment_bytes(segment),
        lg_p(ceil_log2(ranks)),
        q(static_cast<double>(std::bit_floor(static_cast<unsigned>(ranks)))),
        lg_q(ceil_log2(q)) {}

  const NetworkModel* network;
  bool is_local;
  double p;              // world size
  double n;              // bytes of a rank's `count` elements
  double segment_bytes;  // 0: no limit
  double share = 0;      // bytes of the p-th part of a rank's longest buffer
  double whole = 0;      // bytes of that buffer
  double lg_p;           // rounded up
  double q;              // largest power of two <= p
  double lg_q;           // exact

  double message(double bytes) const {
    const double seconds = network->message_seconds(bytes, is_local);
    if (network->measured.empty() || share == 0) return seconds;
    const double of_share = network->message_seconds(share, is_local) - network->message_seconds(0, is_local);
    return std::max(seconds, of_share * bytes / share);
  }
  /// Two ranks send each other so much.
  double exchange(double bytes) const {
    return network->exchanges.empty() ? message(bytes) : seconds_on(network->exchanges, bytes);
  }
  /// The same two ranks, once more.
  double repeat(double bytes) const {
    return network->repeats.empty() ? exchange(bytes) : seconds_on(network->repeats, bytes);
  }
  /// One rank sends, the other waits for it.
  double hop(double bytes) const { return network->hops.empty() ? message(bytes) : seconds_on(network->hops, bytes); }
  double reduction(double bytes) const {
    if (network->sums.empty() || whole == 0) return network->gamma * bytes;
    return seconds_on(network->sums, whole) * bytes / whole;
  }
  double segments_of(double bytes) const {
    return segment_bytes == 0 || bytes == 0 ? 1 : std::max(1.0, std::ceil(bytes / segment_bytes));
  }
  /// Handing the vector of a rank beyond q to a neighbour, who adds it, and handing the result back.
  double fold() const { return q < p ? 2 * hop(n) + reduction(n) : 0; }

  /// The messages of a root that hands the upper half of p blocks on, then the upper half of what it has kept, ...
  double halving_messages(double block) const {
    double sum = 0;
    for (auto blocks = static_cast<unsigned>(p); blocks > 1; blocks = (blocks + 1) / 2)
      sum += message(blocks / 2 * block);
    return sum;
  }
  /// Rounds in which a rank that has 1, 2, 4, ... of p blocks gets as many again, or all that are missing.
  double doubling_messages(double block) const {
    double sum = 0;
    for (double has = 1; has < p; has *= 2) sum += message(std::min(has, p - has) * block);
    return sum;
  }
};

double recursive_doubling(const Terms& t) { return t.lg_q * (t.exchange(t.n) + t.reduction(t.n)) + t.fold(); }

double rabenseifner(const Terms& t) {
  double sum = t.fold();
  for (double part = 2; part <= t.q; part *= 2) sum += 2 * t.exchange(t.n / part) + t.reduction(t.n / part);
  sum += t.repeat(t.n / t.q) - t.exchange(t.n / t.q);  // the last halving and the first doubling: the same partners
  return sum;
}

/// k pieces through p - 1 stages, of which each takes `stage` and lets a piece in every `interval`.
double pipeline(const Terms& t, double k, double stage, double interval) {
  return (t.p - 1) * stage + (k - 1) * interval;
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

/// Where messages were measured, processors are the narrow place: the first piece goes up and down the tree in hops,
/// and meanwhile the ranks, which are awake, pass all others; each sends and receives (p - 1)/p of them on average.
double measured_double_tree(OpKind op, const Terms& t) {
  const double ways = op == OpKind::AllReduce ? 2 : 1;
  const double k = t.segments_of(t.n / 2);
  const double bytes = t.n / 2 / k;
  const double piece = std::max(t.repeat(bytes), t.repeat(t.n) * bytes / t.n);
  const double pieces = std::max(0.0, ways * 2 * k * (t.p - 1) / t.p - 1);
  const double sums = op == OpKind::Broadcast ? 0 : t.reduction(t.n);
  return ways * t.lg_p * t.hop(bytes) + pieces * piece + sums;
}

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

using Seconds = std::optional<double>;

Seconds all_reduce_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "ring") return (t.p - 1) * (2 * t.message(t.n / t.p) + t.reduction(t.n / t.p));
  if (algorithm == "recursive_doubling") return recursive_doubling(t);
  if (algorithm == "rabenseifner") return rabenseifner(t);
  if (algorithm == "binomial") return binomial_reduce(t) + binomial_broadcast(t);
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
  if (algorithm == "direct") return (t.p - 1) * t.message(t.n);
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
  if (algorithm == "direct") return (t.p - 1) * (t.message(t.n) + t.reduction(t.n));
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
    const std::size_t count = algorithms::sent_block(problem, peer).count;
    if (peer != problem.rank && count > 0) sum += t.message(static_cast<double>(count) * element_bytes);
  }
  return sum;
}

Seconds barrier_seconds(const Problem& problem, const Terms& t, std::string_view algorithm) {
  if (algorithm == "dissemination") return t.lg_p * t.message(0);
  if (algorithm == "hierarchical") {
    const HostTerms hosts = host_terms(problem, t);
    return 2 * hosts.within.lg_p * hosts.within.message(0) + hosts.among.lg_p * hosts.among.message(0);
  }
  return std::nullopt;
}

bool is_barrier(OpKind op) { return op == OpKind::Barrier || op == OpKind::Shutdown; }

/// Whether no rank has anything to tell another.
bool is_idle(const Problem& problem) {
  if (problem.world_size == 1) return true;
  if (is_barrier(problem.op)) return false;
  if (has_counts(problem.op))
    return std::all_of(problem.counts.begin(), problem.counts.end(), [](auto c) { return c == 0; });
  return problem.count == 0;
}

bool is_on_one_host(const Problem& problem) {
  return !problem.hosts.empty() &&
         std::adjacent_find(problem.hosts.begin(), problem.hosts.end(), std::not_equal_to<>()) == problem.hosts.end();
}

Terms terms_of(const Problem& problem, std::size_t element_bytes, const NetworkModel& network) {
  const auto element = static_cast<double>(element_bytes);
  Terms terms(network, is_on_one_host(problem), problem.world_size, static_cast<double>(problem.count) * element,
              static_cast<double>(problem.segment_count) * element);
  const bool is_one_vector =
      problem.op == OpKind::AllReduce || problem.op == OpKind::Broadcast || problem.op == OpKind::Reduce;
  terms.share = is_one_vector ? terms.n / terms.p : terms.n;
  terms.whole = terms.share * terms.p;
  return terms;
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

double seconds_on(const MeasuredCurve& curve, double bytes) {
  if (curve.empty()) return 0;
  const auto above = std::find_if(curve.begin(), curve.end(), [&](const auto& point) { return point.bytes >= bytes; });
  if (above == curve.begin()) return above->seconds;
  if (above == curve.end()) return curve.back().seconds * bytes / curve.back().bytes;
  const MeasuredMessage& below = *(above - 1);
  return below.seconds + (above->seconds - below.seconds) * (bytes - below.bytes) / (above->bytes - below.bytes);
}

double NetworkModel::message_seconds(double bytes, bool is_local) const {
  if (measured.empty()) return is_local ? local_alpha + bytes * local_beta : alpha + bytes * beta;
  return seconds_on(measured, bytes);
}

std::optional<double> predicted_seconds(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                                        const NetworkModel& network) {
  const auto names = algorithms::names_for(problem.op);
  if (std::find(names.begin(), names.end(), algorithm) == names.end()) return std::nullopt;
  if (is_idle(problem)) return 0.0;
  const Seconds seconds = formula(problem, element_bytes, algorithm, terms_of(problem, element_bytes, network));
  return seconds ? Seconds(network.startup + *seconds) : std::nullopt;
}

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
        if (peer != problem.rank) away += static_cast<double>(algorithms::sent_block(problem, peer).count) * element;
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
