#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/tuning.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
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
};

constexpr std::array kAlgorithms = {
    Entry{"ring", OpKind::AllReduce, ring_all_reduce, true},
    Entry{"ring", OpKind::AllGather, ring_all_gather, true},
    Entry{"ring", OpKind::ReduceScatter, ring_reduce_scatter, true},
    Entry{"ring", OpKind::AllGatherV, ring_all_gather_v},
    Entry{"recursive_doubling", OpKind::AllReduce, recursive_doubling_all_reduce},
    Entry{"recursive_doubling", OpKind::AllGather, recursive_doubling_all_gather, false, true},
    Entry{"recursive_halving", OpKind::ReduceScatter, recursive_halving_reduce_scatter, false, true},
    Entry{"rabenseifner", OpKind::AllReduce, rabenseifner_all_reduce},
    Entry{"bruck", OpKind::AllGather, bruck_all_gather, true},
    Entry{"bruck", OpKind::AllToAll, bruck_all_to_all, true},
    Entry{"pairwise", OpKind::AllToAll, pairwise_all_to_all, true},
    Entry{"binomial", OpKind::Broadcast, binomial_broadcast},
    Entry{"binomial", OpKind::Reduce, binomial_reduce},
    Entry{"binomial", OpKind::Gather, binomial_gather},
    Entry{"binomial", OpKind::Scatter, binomial_scatter},
    Entry{"chain", OpKind::Broadcast, chain_broadcast},
    Entry{"chain", OpKind::Reduce, chain_reduce},
    Entry{"van_de_geijn", OpKind::Broadcast, van_de_geijn_broadcast},
    Entry{"double_tree", OpKind::AllReduce, double_tree_all_reduce},
    Entry{"double_tree", OpKind::Broadcast, double_tree_broadcast},
    Entry{"double_tree", OpKind::Reduce, double_tree_reduce},
    Entry{"direct", OpKind::Broadcast, direct_broadcast},
    Entry{"direct", OpKind::Reduce, direct_reduce},
    Entry{"direct", OpKind::Gather, direct_gather},
    Entry{"direct", OpKind::Scatter, direct_scatter},
    Entry{"direct", OpKind::ReduceScatter, direct_reduce_scatter},
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

OpKind with_schedule(OpKind op) { return op == OpKind::Shutdown ? OpKind::Barrier : op; }  // a group's last barrier

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
  return !entry.needs_power_of_two || std::has_single_bit(static_cast<unsigned>(problem.world_size));
}

/// The model that choices are made by until a machine has been measured: the one of cost_model.h, with links within a
/// host that take half as long. What a choice depends on is alpha / beta and gamma / beta. Here alpha / beta is 30 KB:
/// so many bytes more are worth one message less. `tutti tune` found 30 to 60 KB between 2 and 4 ranks over TCP on one
/// host of two processors.
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

bool is_measured(const Problem& problem, const Tuning* tuning) {
  const auto is_it = [&](const Tuning::Row& row) { return row.op == with_schedule(problem.op); };
  return tuning != nullptr && std::any_of(tuning->rows.begin(), tuning->rows.end(), is_it);
}

void require_known(std::string_view name) {
  std::string known;
  std::string_view previous;
  for (const Entry& entry : kAlgorithms) {
    if (entry.name == name) return;
    if (entry.name == previous) continue;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
    previous = entry.name;
  }
  throw Error(ErrorCode::InvalidArgument,
              "unknown algorithm \"" + std::string(name) + "\"; known are " + known + ", or \"\" to choose by size");
}

}  // namespace

std::size_t block_offset(const Problem& problem, int rank) {
  return std::accumulate(problem.counts.begin(), problem.counts.begin() + rank, std::size_t{0});
}

std::string_view choose(const Problem& problem, std::size_t element_bytes, const Tuning* tuning) {
  const bool by_measurement = is_measured(problem, tuning);
  const Entry* best = nullptr;
  double best_seconds = 0;
  for (const Entry& entry : kAlgorithms) {
    if (entry.op != with_schedule(problem.op) || !fits(entry, problem)) continue;
    const auto seconds = by_measurement ? tuning->seconds(entry.op, entry.name, bytes_of(problem, element_bytes))
                                        : predicted_seconds(problem, element_bytes, entry.name,
                                                            tuning ? tuning->model : default_model());
    // Of equals the first in the table: sums of other rounding must not decide.
    if (!seconds || (best != nullptr && *seconds >= best_seconds * (1 - 1e-9))) continue;
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
  const Entry* entry = name.empty() ? nullptr : find_entry(problem.op, name);
  if (entry == nullptr) entry = find_entry(problem.op, choose(problem, element_bytes, tuning));
  return entry->build(problem);
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
