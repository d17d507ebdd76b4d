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
  double lg_p;           // rounded up
  double q;              // largest power of two <= p
  double lg_q;           // exact

  double message(double bytes) const { return network->message_seconds(bytes, is_local); }
  double reduction(double bytes) const { return network->gamma * bytes; }
  double segments_of(double bytes) const {
    return segment_bytes == 0 || bytes == 0 ? 1 : std::max(1.0, std::ceil(bytes / segment_bytes));
  }
  /// Handing the vector of a rank beyond q to a neighbour, who adds it, and handing the result back.
  double fold() const { return q < p ? 2 * message(n) + reduction(n) : 0; }

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

double recursive_doubling(const Terms& t) { return t.lg_q * (t.message(t.n) + t.reduction(t.n)) + t.fold(); }

double rabenseifner(const Terms& t) {
  double sum = t.fold();
  for (double part = 2; part <= t.q; part *= 2) sum += 2 * t.message(t.n / part) + t.reduction(t.n / part);
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

double binomial_broadcast(const Terms& t) { return t.lg_p * t.message(t.n); }
double binomial_reduce(const Terms& t) { return t.lg_p * (t.message(t.n) + t.reduction(t.n)); }

/// Messages of a double tree that follow one another until the first pieces are through, and those that each further
/// pair of pieces adds. Read off simulations of 2 to 100 ranks: a rank must pass 2 messages each way for a pair (4 in
/// all_reduce), and its partners are not always ready in turn.
struct TreePace {
  double first;
  double further;
};

TreePace tree_pace(OpKind op, const Terms& t) {
  const bool both_ways = op == OpKind::AllReduce;
  if (t.p == 2) return {both_ways ? 3.0 : 2.0, 2};
  if (t.p == 3) return {both_ways ? 5.0 : 3.0, both_ways ? 3.0 : 2.0};
  if (both_ways) return {4 * t.lg_p - 1, 5.5};
  return {2 * t.lg_p, op == OpKind::Broadcast ? 2.5 : 3};
}

double double_tree(OpKind op, const Terms& t) {
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
  if (algorithm == "bruck" || algorithm == "recursive_doubling") return t.doubling_messages(t.n);
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
    for (double blocks = 1; blocks < t.p; blocks *= 2) sum += t.message(blocks * t.n) + t.reduction(blocks * t.n);
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
  return Terms(network, is_on_one_host(problem), problem.world_size, static_cast<double>(problem.count) * element,
               static_cast<double>(problem.segment_count) * element);
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

double NetworkModel::message_seconds(double bytes, bool is_local) const {
  if (measured.empty()) return is_local ? local_alpha + bytes * local_beta : alpha + bytes * beta;
  const auto above = std::find_if(measured.begin(), measured.end(), [&](const auto& m) { return m.bytes >= bytes; });
  if (above == measured.begin()) return above->seconds;
  if (above == measured.end()) return measured.back().seconds * bytes / measured.back().bytes;
  const MeasuredMessage& below = *(above - 1);
  return below.seconds + (above->seconds - below.seconds) * (bytes - below.bytes) / (above->bytes - below.bytes);
}

std::optional<double> predicted_seconds(const Problem& problem, std::size_t element_bytes, std::string_view algorithm,
                                        const NetworkModel& network) {
  const auto names = algorithms::names_for(problem.op);
  if (std::find(names.begin(), names.end(), algorithm) == names.end()) return std::nullopt;
  if (is_idle(problem)) return 0.0;
  const Terms t = terms_of(problem, element_bytes, network);
  switch (problem.op) {
    case OpKind::AllReduce:
      return all_reduce_seconds(problem, t, algorithm);
    case OpKind::Broadcast:
      return broadcast_seconds(problem, t, algorithm);
    case OpKind::Reduce:
      return reduce_seconds(problem, t, algorithm);
    case OpKind::AllGather:
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
    case OpKind::Barrier:
    case OpKind::Shutdown:
      return barrier_seconds(problem, t, algorithm);
    case OpKind::Send:
    case OpKind::Recv:
      return std::nullopt;
  }
  return std::nullopt;
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
