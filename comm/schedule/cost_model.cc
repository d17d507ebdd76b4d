#include <tutti/comm/schedule/cost_model.h>

#include <algorithm>
#include <bit>

namespace tutti::comm {
namespace {

/// The quantities in which the formulas are written.
struct Terms {
  double p;         // world size
  double lg_p;      // rounded up
  double q;         // largest power of two <= p
  double lg_q;      // exact
  double bytes;     // per rank, n
  double segments;  // of n
  double alpha;
  double wire;       // n beta
  double reduction;  // n gamma

  bool folds() const { return q < p; }
  /// Handing the vector of a rank beyond q to a neighbour, who adds it, and handing the result back.
  double fold() const { return folds() ? 2 * (alpha + wire) + reduction : 0; }
};

Terms terms_of(const algorithms::Problem& problem, std::size_t element_bytes, const NetworkModel& network) {
  const auto p = static_cast<unsigned>(problem.world_size);
  const unsigned q = std::bit_floor(p);
  const std::size_t step = problem.segment_count == 0 ? problem.count : problem.segment_count;
  const double bytes = static_cast<double>(problem.count) * static_cast<double>(element_bytes);
  return {.p = static_cast<double>(p),
          .lg_p = static_cast<double>(std::bit_width(p - 1)),
          .q = static_cast<double>(q),
          .lg_q = static_cast<double>(std::bit_width(q) - 1),
          .bytes = bytes,
          .segments = step == 0 ? 0 : static_cast<double>((problem.count + step - 1) / step),
          .alpha = network.alpha,
          .wire = bytes * network.beta,
          .reduction = bytes * network.gamma};
}

std::optional<double> all_reduce_seconds(const Terms& t, std::string_view algorithm) {
  if (algorithm == "ring") {
    return 2 * (t.p - 1) * t.alpha + (t.p - 1) / t.p * (2 * t.wire + t.reduction);
  }
  if (algorithm == "recursive_doubling") return t.lg_q * (t.alpha + t.wire + t.reduction) + t.fold();
  if (algorithm == "rabenseifner") {
    return 2 * t.lg_q * t.alpha + (t.q - 1) / t.q * (2 * t.wire + t.reduction) + t.fold();
  }
  return std::nullopt;
}

std::optional<double> broadcast_seconds(const Terms& t, std::string_view algorithm) {
  if (algorithm == "binomial") return t.lg_p * (t.alpha + t.wire);
  if (algorithm == "chain") return (t.p - 2 + t.segments) * (t.alpha + t.wire / t.segments);
  if (algorithm == "van_de_geijn") return (t.lg_p + t.p - 1) * t.alpha + 2 * (t.p - 1) / t.p * t.wire;
  if (algorithm == "direct") return (t.p - 1) * (t.alpha + t.wire);
  return std::nullopt;
}

std::optional<double> reduce_seconds(const Terms& t, std::string_view algorithm) {
  if (algorithm == "binomial") return t.lg_p * (t.alpha + t.wire + t.reduction);
  if (algorithm == "direct") return (t.p - 1) * (t.alpha + t.wire + t.reduction);
  return std::nullopt;
}

/// Gather, scatter and all_gather: p - 1 blocks through one port, in as many messages as the algorithm makes of them.
std::optional<double> blocks_seconds(const Terms& t, OpKind op, std::string_view algorithm) {
  const double linear = (t.p - 1) * (t.alpha + t.wire);
  const double logarithmic = t.lg_p * t.alpha + (t.p - 1) * t.wire;
  if (op == OpKind::AllGather) {
    if (algorithm == "ring") return linear;
    if (algorithm == "bruck" || algorithm == "recursive_doubling") return logarithmic;
    return std::nullopt;
  }
  if (algorithm == "direct") return linear;
  if (algorithm == "binomial") return logarithmic;
  return std::nullopt;
}

}  // namespace

std::optional<double> predicted_seconds(const algorithms::Problem& problem, std::size_t element_bytes,
                                        std::string_view algorithm, const NetworkModel& network) {
  const Terms t = terms_of(problem, element_bytes, network);
  const auto names = algorithms::names_for(problem.op);
  if (std::find(names.begin(), names.end(), algorithm) == names.end()) return std::nullopt;
  const bool is_barrier = problem.op == OpKind::Barrier || problem.op == OpKind::Shutdown;
  if (t.p == 1 || (problem.count == 0 && !is_barrier)) return 0.0;  // nobody hears of another
  switch (problem.op) {
    case OpKind::AllReduce:
      return all_reduce_seconds(t, algorithm);
    case OpKind::Broadcast:
      return broadcast_seconds(t, algorithm);
    case OpKind::Reduce:
      return reduce_seconds(t, algorithm);
    case OpKind::Gather:
    case OpKind::AllGather:
    case OpKind::Scatter:
      return blocks_seconds(t, problem.op, algorithm);
    case OpKind::Barrier:
    case OpKind::Shutdown:
      if (algorithm == "dissemination") return t.lg_p * t.alpha;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

double lower_bound_seconds(const algorithms::Problem& problem, std::size_t element_bytes, const NetworkModel& network) {
  const Terms t = terms_of(problem, element_bytes, network);
  const bool is_barrier = problem.op == OpKind::Barrier || problem.op == OpKind::Shutdown;
  if (t.p == 1 || (problem.count == 0 && !is_barrier)) return 0;
  const double latency = t.lg_p * t.alpha;
  const double shared_reduction = (t.p - 1) / t.p * t.reduction;  // (p - 1) n reductions done by p ranks
  switch (problem.op) {
    case OpKind::AllReduce:
      return std::max({latency, 2 * (t.p - 1) / t.p * t.wire, shared_reduction});
    case OpKind::Reduce:
      return std::max({latency, t.wire, shared_reduction});
    case OpKind::Broadcast:
      return std::max(latency, t.wire);
    case OpKind::Gather:
    case OpKind::AllGather:
    case OpKind::Scatter:
      return std::max(latency, (t.p - 1) * t.wire);
    default:
      return latency;
  }
}

}  // namespace tutti::comm
