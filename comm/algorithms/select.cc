// Which algorithm is taken: by its name, or where the caller names none.
#include <tutti/comm/algorithms/table.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <set>
#include <string>

namespace tutti::comm::algorithms {
namespace {

/// So many times as long are segments that have no gaps to fill: each has costs of its own.
constexpr std::size_t kLongSegments = 4;

void require_known(std::string_view name) {
  std::string known;
  std::set<std::string_view> listed;
  for (const Entry& entry : table()) {
    if (entry.name == name) return;
    if (listed.insert(entry.name).second) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error(ErrorCode::InvalidArgument, "unknown algorithm \"", name, "\"; known are ", known,
              ", or \"\" to choose by size");
}

/// What brackets from the left; not in the table, because none is taken for its speed.
Algorithm left_fold(OpKind op, double bytes) {
  constexpr double kLong = 16 * 1024;  // what many ranks add sooner than one: between two, over TCP (algorithms.md)
  switch (op) {
    case OpKind::AllReduce:
      return bytes <= kLong ? star_all_reduce : fixed_all_reduce;
    case OpKind::Reduce:
      return fixed_reduce;
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterV:
      return direct_reduce_scatter;
    default:
      return nullptr;
  }
}

// --- Where no name is given

/// The model that choices are made by until a machine has been measured: the one of cost_model.h, with links within a
/// host that take half as long. What a choice depends on is alpha / beta (30 KB here: so many bytes more are worth one
/// message less) and gamma / beta. On one host of two CPUs, over TCP, this model takes recursive doubling for
/// all_reduce up to 100 KB between 2 ranks and up to 48 KB between 4; by `tutti tune`, on a busy machine, it was the
/// fastest up to about 40 and 130 KB.
const NetworkModel& default_model() {
  // Never destroyed: groups that outlive main() choose by it.
  static const auto& model =
      *new NetworkModel{.local_alpha = NetworkModel().alpha / 2, .local_beta = NetworkModel().beta / 2};
  return model;
}

constexpr double kShort = 32 * 1024;

/// Whether one rank shall hear all others and answer them, of which each then has to be run once only. It keeps one
/// CPU busy, be there more or not, and a connection to every rank.
bool one_may_serve_all(const Problem& problem, double bytes, int processors) {
  constexpr int kFewProcessors = 4;
  constexpr int kFewRanks = 32;
  const double whole = problem.op == OpKind::AllReduce ? bytes : problem.world_size * bytes;
  return find_entry(problem.op, "star") != nullptr && processors <= kFewProcessors && problem.world_size <= kFewRanks &&
         whole <= kShort;
}

/// What is taken where ranks share few CPUs, which work off the messages of all in turns: how many messages there are,
/// and which ranks have them, counts for more than how many follow each other. The limits are for two CPUs
/// (bench/README.md).
std::string_view choose_for_few_processors(const Problem& problem, double bytes, int processors) {
  constexpr double kLong = 256 * 1024;
  constexpr double kLongBlock = 8 * 1024;
  const int ranks = problem.world_size;
  if (ranks <= processors) return {};
  // Short blocks in a row are the root's work, which others can share; a rank that forwards long ones takes its CPU's
  // time.
  if ((problem.op == OpKind::Gather || problem.op == OpKind::Scatter) && bytes >= kLongBlock) return "direct";
  // In any tree p - 1 vectors go and are added; one that passes them on in pieces wakes its ranks more often.
  if (problem.op == OpKind::Reduce) return "binomial";
  if (bytes > kLong) return {};
  if (one_may_serve_all(problem, bytes, processors)) return "star";
  // Of 2(p - 1) messages in two trees, p lg p by recursive doubling, which 3 ranks do in as many, a ring in three times
  // as many. Vectors that take longer to copy and to add than to pass on are moved sooner where all ranks work.
  if (problem.op == OpKind::AllReduce) return ranks >= std::max(4, 2 * processors) ? "binomial" : "recursive_doubling";
  if (problem.op != OpKind::Broadcast) return {};
  // In back-to-back broadcasts a chain spreads the sends evenly and keeps every receiver busy, so no rank sleeps. The
  // last rank of a long chain waits for long.
  return bytes <= kShort && ranks <= 4 * processors ? "chain" : "binomial";
}

/// What part of the time of those before it in the table an algorithm must promise to take. Fewer messages cost what is
/// not in the estimates: ranks between root and leaves move blocks twice, or all copy them in Scratch.
double worthwhile(OpKind op) {
  if (op == OpKind::Gather || op == OpKind::Scatter) return 0.9;
  return op == OpKind::AllGather || op == OpKind::ReduceScatter ? 0.95 : 1 - 1e-9;
}

bool is_measured(const Problem& problem, const Tuning* tuning) {
  const auto is_it = [&](const Tuning::Row& row) { return row.op == with_schedule(problem.op); };
  return tuning != nullptr && std::any_of(tuning->rows.begin(), tuning->rows.end(), is_it);
}

}  // namespace

std::string_view choose(const Problem& problem, std::size_t element_bytes, const Tuning* tuning) {
  if (tuning != nullptr && tuning->processors > 0) {
    const auto taken = choose_for_few_processors(problem, bytes_of(problem, element_bytes), tuning->processors);
    if (!taken.empty()) return taken;
  }
  const bool by_measurement = is_measured(problem, tuning);
  const bool has_model = tuning != nullptr && tuning->processors == 0;
  // Of equals the first in the table: sums of other rounding, or the noise of a measurement, must not decide.
  const double clearly = by_measurement ? 0.97 : worthwhile(with_schedule(problem.op));
  const Entry* best = nullptr;
  double best_seconds = 0;
  for (const Entry& entry : table()) {
    if (entry.op != with_schedule(problem.op) || !fits(entry, problem)) continue;
    const auto seconds = by_measurement ? tuning->seconds(entry.op, entry.name, bytes_of(problem, element_bytes))
                                        : predicted_seconds(problem, element_bytes, entry.name,
                                                            has_model ? tuning->model : default_model());
    if (!seconds || (best != nullptr && *seconds >= best_seconds * clearly)) continue;
    best = &entry;
    best_seconds = *seconds;
  }
  if (best != nullptr) return best->name;
  if (by_measurement) return choose(problem, element_bytes);  // what was measured does not fit this world
  throw Error(ErrorCode::InvalidArgument, "algorithm for ", name(problem.op),
              ": a point-to-point message has no schedule");
}

Schedule select(const Problem& problem, std::size_t element_bytes, std::string_view name, const Tuning* tuning) {
  if (problem.left_fold && !problem.in_order &&
      problem.world_size <= 2) {  // 0 + 1 has one bracketing: the order decides
    Problem in_order = problem;
    in_order.in_order = true;
    return select(in_order, element_bytes, name, tuning);
  }
  if (!problem.hosts.empty() && problem.hosts.size() != static_cast<std::size_t>(problem.world_size)) {
    throw Error(ErrorCode::InvalidArgument, "a world of ", problem.world_size, " ranks needs as many hosts, found ",
                problem.hosts.size());
  }
  if (!name.empty()) require_known(name);
  if (problem.left_fold && problem.world_size > 2 && is_reduction(problem.op))
    return left_fold(problem.op, bytes_of(problem, element_bytes))(problem);
  const Entry* entry = name.empty() ? nullptr : find_entry(problem.op, name);
  if (entry != nullptr && problem.in_order && !entry->has(kKeepsOrder)) entry = nullptr;
  if (entry == nullptr) entry = find_entry(problem.op, choose(problem, element_bytes, tuning));
  Problem in_its_segments = problem;
  in_its_segments.segment_count = segment_count(problem, entry->name);
  return entry->build(in_its_segments);
}

std::size_t segment_count(const Problem& problem, std::string_view algorithm) {
  const Entry* entry = find_entry(problem.op, algorithm);
  return problem.segment_count * (entry != nullptr && entry->has(kHasNoGaps) ? kLongSegments : 1);
}

std::vector<std::string_view> names_for(OpKind op) {
  std::vector<std::string_view> names;
  for (const Entry& entry : table()) {
    if (entry.op == with_schedule(op)) names.push_back(entry.name);
  }
  return names;
}

bool rotates(const Problem& problem, std::string_view name) {
  const Entry* entry = find_entry(problem.op, name);
  if (entry == nullptr || !entry->has(kRotates)) return false;
  // All-reduce alone cuts `count` into chunks; everything else moves blocks of `count`.
  return problem.op != OpKind::AllReduce || problem.count % static_cast<std::size_t>(problem.world_size) == 0;
}

}  // namespace tutti::comm::algorithms
