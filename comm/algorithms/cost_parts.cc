#include <tutti/comm/algorithms/cost_parts.h>
#include <tutti/comm/algorithms/hosts.h>

#include <algorithm>

namespace tutti::comm {
namespace {

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

/// Where messages were measured, processors are the narrow place: the first piece goes up and down the tree in hops,
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

}  // namespace

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

double by_one_rank(const Terms& t, double bytes) {
  if (t.network->measured.empty()) return (t.p - 1) * t.message(bytes);
  const double repeat = std::max(t.repeat(bytes), t.repeat((t.p - 1) * bytes) / (t.p - 1));
  return t.hop(bytes) + (t.p - 2) * repeat / t.p;
}

double there_and_back(const Terms& t) {
  const double k = t.segments_of(t.n);
  const double bytes = t.n / k;
  const double piece = std::max(t.repeat(bytes), t.repeat(t.n) / k);
  const double sum = t.reduction(bytes);
  if (t.network->measured.empty()) return 2 * t.hop(bytes) + sum + (k - 1) * std::max(t.message(bytes), sum);
  return 2 * t.hop(bytes) + (k - 1) * piece + k * sum;
}

double double_tree(OpKind op, const Terms& t) {
  if (!t.network->measured.empty()) return measured_double_tree(op, t);
  const double k = t.segments_of(t.n / 2);
  const double message = t.message(t.n / 2 / k);
  const double reduction = op == OpKind::Broadcast ? 0 : t.reduction(t.n / 2 / k);
  const TreePace pace = tree_pace(op, t);
  return pace.first * message + pace.further * (k - 1) * std::max(message, reduction) + t.lg_p * reduction;
}

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

}  // namespace tutti::comm
