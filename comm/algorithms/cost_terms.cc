#include <tutti/comm/algorithms/cost_terms.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace tutti::comm {

namespace {

bool is_barrier(OpKind op) { return op == OpKind::Barrier || op == OpKind::Shutdown; }

bool is_on_one_host(const Problem& problem) {
  return !problem.hosts.empty() &&
         std::adjacent_find(problem.hosts.begin(), problem.hosts.end(), std::not_equal_to<>()) == problem.hosts.end();
}

}  // namespace

double ceil_log2(double value) {
  return value <= 1 ? 0 : static_cast<double>(std::bit_width(static_cast<unsigned>(value) - 1));
}

bool is_idle(const Problem& problem) {
  if (problem.world_size == 1) return true;
  if (is_barrier(problem.op)) return false;
  if (has_counts(problem.op))
    return std::all_of(problem.counts.begin(), problem.counts.end(), [](auto c) { return c == 0; });
  return problem.count == 0;
}

Terms::Terms(const NetworkModel& model, bool local, double ranks, double bytes, double segment)
    : network(&model),
      is_local(local),
      p(ranks),
      n(bytes),
      segment_bytes(segment),
      lg_p(ceil_log2(ranks)),
      q(static_cast<double>(std::bit_floor(static_cast<unsigned>(ranks)))),
      lg_q(ceil_log2(q)) {}

double Terms::message(double bytes) const {
  const double seconds = network->message_seconds(bytes, is_local);
  if (network->measured.empty() || share == 0) return seconds;
  const double of_share = network->message_seconds(share, is_local) - network->message_seconds(0, is_local);
  return std::max(seconds, of_share * bytes / share);
}

double Terms::exchange(double bytes) const {
  return network->exchanges.empty() ? message(bytes) : seconds_on(network->exchanges, bytes);
}

double Terms::repeat(double bytes) const {
  return network->repeats.empty() ? exchange(bytes) : seconds_on(network->repeats, bytes);
}

double Terms::hop(double bytes) const {
  return network->hops.empty() ? message(bytes) : seconds_on(network->hops, bytes);
}

double Terms::reduction(double bytes) const {
  if (network->sums.empty() || whole == 0) return network->gamma * bytes;
  return seconds_on(network->sums, whole) * bytes / whole;
}

double Terms::segments_of(double bytes) const {
  return segment_bytes == 0 || bytes == 0 ? 1 : std::max(1.0, std::ceil(bytes / segment_bytes));
}

double Terms::fold() const { return q < p ? 2 * hop(n) + reduction(n) : 0; }

double Terms::halving_messages(double block) const {
  double sum = 0;
  for (auto blocks = static_cast<unsigned>(p); blocks > 1; blocks = (blocks + 1) / 2)
    sum += message(blocks / 2 * block);
  return sum;
}

double Terms::doubling_messages(double block) const {
  double sum = 0;
  for (double has = 1; has < p; has *= 2) sum += message(std::min(has, p - has) * block);
  return sum;
}

Terms terms_of(const Problem& problem, std::size_t element_bytes, const NetworkModel& network,
               std::string_view algorithm) {
  const auto element = static_cast<double>(element_bytes);
  const std::size_t longest =
      has_counts(problem.op) ? *std::max_element(problem.counts.begin(), problem.counts.end()) : problem.count;
  Terms terms(network, is_on_one_host(problem), problem.world_size, static_cast<double>(longest) * element,
              static_cast<double>(algorithms::segment_count(problem, algorithm)) * element);
  const bool is_one_vector =
      problem.op == OpKind::AllReduce || problem.op == OpKind::Broadcast || problem.op == OpKind::Reduce;
  terms.share = is_one_vector ? terms.n / terms.p : terms.n;
  terms.whole = terms.share * terms.p;
  return terms;
}

}  // namespace tutti::comm
