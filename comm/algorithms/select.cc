#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/tuning.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>
#include <string>

namespace tutti::comm::algorithms {
namespace {

using Algorithm = Schedule (*)(const Problem&);

struct Entry {
  std::string_view name;
  OpKind op;
  Algorithm build;
  bool rotates = false;             // whenever all chunks have the same length
  bool needs_power_of_two = false;  // hands other worlds on to another algorithm
  bool needs_hosts = false;         // does nothing for ranks that share none
  bool keeps_order = false;         // combines operands in the order of their ranks
  bool has_no_gaps = false;         // all ranks send and receive until the end, and add meanwhile, however it is cut
};

/// So many times as long are segments that have no gaps to fill: each has costs of its own.
constexpr std::size_t kLongSegments = 4;

constexpr std::array kAlgorithms = {
    Entry{.name = "ring", .op = OpKind::AllReduce, .build = ring_all_reduce, .rotates = true, .has_no_gaps = true},
    Entry{.name = "ring", .op = OpKind::AllGather, .build = ring_all_gather, .rotates = true, .has_no_gaps = true},
    Entry{"ring", OpKind::ReduceScatter, ring_reduce_scatter, true},
    Entry{.name = "ring", .op = OpKind::AllGatherV, .build = ring_all_gather_v, .has_no_gaps = true},
    Entry{"ring", OpKind::ReduceScatterV, ring_reduce_scatter_v},
    Entry{.name = "recursive_doubling",
          .op = OpKind::AllReduce,
          .build = recursive_doubling_all_reduce,
          .keeps_order = true},
    Entry{.name = "recursive_doubling",
          .op = OpKind::AllGather,
          .build = recursive_doubling_all_gather,
          .needs_power_of_two = true,
          .has_no_gaps = true},
    Entry{"recursive_halving", OpKind::ReduceScatter, recursive_halving_reduce_scatter, false, true},
    Entry{.name = "rabenseifner",
          .op = OpKind::AllReduce,
          .build = rabenseifner_all_reduce,
          .keeps_order = true,
          .has_no_gaps = true},
    Entry{"bruck", OpKind::AllGather, bruck_all_gather, true},
    Entry{"pairwise", OpKind::AllToAll, pairwise_all_to_all, true},
    Entry{"bruck", OpKind::AllToAll, bruck_all_to_all, true},
    Entry{"pairwise", OpKind::AllToAllV, pairwise_all_to_all_v},
    Entry{"binomial", OpKind::Broadcast, binomial_broadcast},
    Entry{.name = "binomial", .op = OpKind::Reduce, .build = binomial_reduce, .keeps_order = true},
    Entry{.name = "binomial", .op = OpKind::AllReduce, .build = binomial_all_reduce, .keeps_order = true},
    Entry{"chain", OpKind::Broadcast, chain_broadcast},
    Entry{"chain", OpKind::Reduce, chain_reduce},
    Entry{"van_de_geijn", OpKind::Broadcast, van_de_geijn_broadcast},
    Entry{"double_tree", OpKind::AllReduce, double_tree_all_reduce},
    Entry{"double_tree", OpKind::Broadcast, double_tree_broadcast},
    Entry{"double_tree", OpKind::Reduce, double_tree_reduce},
    Entry{"direct", OpKind::Broadcast, direct_broadcast},
    Entry{.name = "direct", .op = OpKind::Reduce, .build = direct_reduce, .keeps_order = true},
    Entry{"direct", OpKind::Gather, direct_gather},
    Entry{"direct", OpKind::Scatter, direct_scatter},
    Entry{"binomial", OpKind::Gather, binomial_gather},
    Entry{"binomial", OpKind::Scatter, binomial_scatter},
    Entry{.name = "direct", .op = OpKind::ReduceScatter, .build = direct_reduce_scatter, .keeps_order = true},
    Entry{.name = "direct", .op = OpKind::ReduceScatterV, .build = direct_reduce_scatter_v, .keeps_order = true},
    Entry{"linear", OpKind::GatherV, linear_gather_v},
    Entry{"linear", OpKind::ScatterV, linear_scatter_v},
    Entry{"dissemination", OpKind::Barrier, dissemination_barrier, true},
    Entry{"hierarchical", OpKind::AllReduce, hierarchical_all_reduce, false, false, true},
    Entry{"hierarchical", OpKind::AllGather, hierarchical_all_gather, false, false, true},
    Entry{"hierarchical", OpKind::Broadcast, hierarchical_broadcast, false, false, true},
    Entry{"hierarchical", OpKind::Reduce, hierarchical_reduce, false, false, true},
    Entry{"hierarchical", OpKind::Barrier, hierarchical_barrier, false, false, true},
    Entry{"hierarchical_split", OpKind::AllReduce, hierarchical_split_all_reduce, false, false, true},
};

/// A group's last barrier is a barrier, and a split an all_gather of colors and keys.
OpKind with_schedule(OpKind op) {
  if (op == OpKind::Shutdown) return OpKind::Barrier;
  return op == OpKind::Split ? OpKind::AllGather : op;
}

const Entry* find_entry(OpKind op, std::string_view name) {
  for (const Entry& entry : kAlgorithms) {
    if (entry.op == with_schedule(op) && entry.name == name) return &entry;
  }
  return nullptr;
}

/// Whether there are several hosts, of which some have several ranks.
bool has_hosts(const Problem& problem) {
  std::vector<int> different = problem.hosts;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  return different.size() > 1 && different.size() < problem.hosts.size();
}

bool fits(const Entry& entry, const Problem& problem) {
  if (entry.needs_hosts && !has_hosts(problem)) return false;
  if (problem.in_order && is_reduction(problem.op) && !entry.keeps_order) return false;
  return !entry.needs_power_of_two || std::has_single_bit(static_cast<unsigned>(problem.world_size));
}

/// The model that choices are made by until a machine has been measured: the one of cost_model.h, with links within a
/// host that take half as long. What a choice depends on is alpha / beta (30 KB here: so many bytes more are worth one
/// message less) and gamma / beta. On one host of two processors, over TCP, this model takes recursive doubling for
/// all_reduce up to 100 KB between 2 ranks and up to 48 KB between 4; by `tutti tune`, on a busy machine, it was the
/// fastest up to about 40 and 130 KB.
const NetworkModel& default_model() {
  static const NetworkModel model = [] {
    NetworkModel network;
    network.local_alpha = network.alpha / 2;
    network.local_beta = network.beta / 2;
    return network;
  }();
  return model;
}

double bytes_of(const Problem& problem, std::size_t element_bytes) {
  const std::size_t count = has_counts(problem.op) ? block_offset(problem, problem.world_size) : problem.count;
  return static_cast<double>(count) * static_cast<double>(element_bytes);
}

/// Whether some algorithm for this has ranks hold and pass on what others get.
bool hands_blocks_on(OpKind op) { return op == OpKind::Gather || op == OpKind::Scatter; }

/// What is taken where ranks share few processors, which work off the messages of all in turns: how many there are, and
/// who has them, counts for more than how many follow each other. The limits are for two processors (algorithms.md).
std::string_view choose_for_few_processors(const Problem& problem, double bytes, int processors) {
  constexpr double kShort = 32 * 1024;
  constexpr double kLong = 256 * 1024;
  constexpr double kLongBlock = 8 * 1024;
  const int ranks = problem.world_size;
  if (ranks <= processors) return {};
  // Short blocks in a row are the root's work, which others can share; who hands long ones on takes its processor's
  // time.
  if (hands_blocks_on(problem.op) && bytes >= kLongBlock) return "direct";
  if (bytes > kLong) return {};
  // Of 2(p - 1) messages in two trees, p lg p by recursive doubling. Vectors that take longer to copy and to add than
  // to pass on are moved sooner where all ranks work.
  if (problem.op == OpKind::AllReduce && ranks >= std::max(4, 2 * processors)) return "binomial";
  if (problem.op != OpKind::Broadcast) return {};
  // In a chain nobody sends more than one message: of many broadcasts in a row no root is the slowest, and who receives
  // is never idle, so that nobody has to be woken. The last rank of a long chain waits for long.
  return bytes <= kShort && ranks <= 4 * processors ? "chain" : "binomial";
}

bool is_measured(const Problem& problem, const Tuning* tuning) {
  const auto is_it = [&](const Tuning::Row& row) { return row.op == with_schedule(problem.op); };
  return tuning != nullptr && std::any_of(tuning->rows.begin(), tuning->rows.end(), is_it);
}

void require_known(std::string_view name) {
  std::string known;
  std::set<std::string_view> listed;
  for (const Entry& entry : kAlgorithms) {
    if (entry.name == name) return;
    if (listed.insert(entry.name).second) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error(ErrorCode::InvalidArgument,
              "unknown algorithm \"" + std::string(name) + "\"; known are " + known + ", or \"\" to choose by size");
}

/// What brackets from the left; not in the table, because nobody takes these for their speed.
Algorithm left_fold(OpKind op, double bytes) {
  constexpr double kLong = 16 * 1024;  // what many ranks add sooner than one: between two, over TCP (algorithms.md)
  switch (op) {
    case OpKind::AllReduce:
      return bytes <= kLong ? fixed_all_reduce_by_one : fixed_all_reduce;
    case OpKind::Reduce:
      return bytes <= kLong ? fixed_reduce_by_one : fixed_reduce;
    case OpKind::ReduceScatter:
      return direct_reduce_scatter;
    case OpKind::ReduceScatterV:
      return direct_reduce_scatter_v;
    default:
      return nullptr;
  }
}

}  // namespace

std::size_t block_offset(const Problem& problem, int rank) {
  return std::accumulate(problem.counts.begin(), problem.counts.begin() + rank, std::size_t{0});
}

std::string_view choose(const Problem& problem, std::size_t element_bytes, const Tuning* tuning) {
  if (tuning != nullptr && tuning->processors > 0) {
    const auto taken = choose_for_few_processors(problem, bytes_of(problem, element_bytes), tuning->processors);
    if (!taken.empty()) return taken;
  }
  const bool by_measurement = is_measured(problem, tuning);
  const bool has_model = tuning != nullptr && tuning->processors == 0;
  // Of equals the first in the table: sums of other rounding, or the noise of a measurement, must not decide.
  // Nor are blocks worth being handed on for less than a tenth: what that costs those between is not in the formulas.
  const double clearly = by_measurement ? 0.97 : hands_blocks_on(problem.op) ? 0.9 : 1 - 1e-9;
  const Entry* best = nullptr;
  double best_seconds = 0;
  for (const Entry& entry : kAlgorithms) {
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
  throw Error(ErrorCode::InvalidArgument,
              "algorithm for " + std::string(name(problem.op)) + ": a point-to-point message has no schedule");
}

Schedule select(const Problem& problem, std::size_t element_bytes, std::string_view name, const Tuning* tuning) {
  if (!problem.hosts.empty() && problem.hosts.size() != static_cast<std::size_t>(problem.world_size)) {
    throw Error(ErrorCode::InvalidArgument, "a world of " + std::to_string(problem.world_size) +
                                                " ranks needs as many hosts, found " +
                                                std::to_string(problem.hosts.size()));
  }
  if (!name.empty()) require_known(name);
  if (problem.left_fold && is_reduction(problem.op))
    return left_fold(problem.op, bytes_of(problem, element_bytes))(problem);
  const Entry* entry = name.empty() ? nullptr : find_entry(problem.op, name);
  if (entry != nullptr && problem.in_order && !entry->keeps_order) entry = nullptr;
  if (entry == nullptr) entry = find_entry(problem.op, choose(problem, element_bytes, tuning));
  Problem in_its_segments = problem;
  in_its_segments.segment_count = segment_count(problem, entry->name);
  return entry->build(in_its_segments);
}

std::size_t segment_count(const Problem& problem, std::string_view algorithm) {
  const Entry* entry = find_entry(problem.op, algorithm);
  return problem.segment_count * (entry != nullptr && entry->has_no_gaps ? kLongSegments : 1);
}

std::vector<std::string_view> names_for(OpKind op) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kAlgorithms) {
    if (entry.op == with_schedule(op)) names.push_back(entry.name);
  }
  return names;
}

bool rotates(const Problem& problem, std::string_view name) {
  const Entry* entry = find_entry(problem.op, name);
  if (entry == nullptr || !entry->rotates) return false;
  // All-reduce alone cuts `count` into chunks; everything else moves blocks of `count`.
  return problem.op != OpKind::AllReduce || problem.count % static_cast<std::size_t>(problem.world_size) == 0;
}

}  // namespace tutti::comm::algorithms
