#include <tutti/comm/algorithms/table.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace tutti::comm::algorithms {
namespace {

constexpr std::array kAlgorithms = {
    Entry{.name = "ring", .op = OpKind::AllReduce, .build = ring_all_reduce, .rotates = true, .has_no_gaps = true},
    Entry{.name = "ring", .op = OpKind::AllGather, .build = ring_all_gather, .rotates = true, .has_no_gaps = true},
    Entry{"ring", OpKind::ReduceScatter, ring_reduce_scatter, true},
    Entry{.name = "ring", .op = OpKind::AllGatherV, .build = ring_all_gather, .has_no_gaps = true},
    Entry{"ring", OpKind::ReduceScatterV, ring_reduce_scatter},
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
    Entry{"pairwise", OpKind::AllToAllV, pairwise_all_to_all},
    Entry{"binomial", OpKind::Broadcast, binomial_broadcast},
    Entry{.name = "binomial", .op = OpKind::Reduce, .build = binomial_reduce, .keeps_order = true},
    Entry{.name = "binomial", .op = OpKind::AllReduce, .build = binomial_all_reduce, .keeps_order = true},
    Entry{"chain", OpKind::Broadcast, chain_broadcast},
    Entry{"chain", OpKind::Reduce, chain_reduce},
    Entry{"van_de_geijn", OpKind::Broadcast, van_de_geijn_broadcast},
    Entry{"double_tree", OpKind::AllReduce, double_tree_all_reduce},
    Entry{"double_tree", OpKind::Broadcast, double_tree_broadcast},
    Entry{"double_tree", OpKind::Reduce, double_tree_reduce},
    Entry{"direct", OpKind::Gather, direct_gather},
    Entry{"direct", OpKind::Scatter, direct_scatter},
    Entry{"binomial", OpKind::Gather, binomial_gather},
    Entry{"binomial", OpKind::Scatter, binomial_scatter},
    Entry{.name = "direct", .op = OpKind::ReduceScatter, .build = direct_reduce_scatter, .keeps_order = true},
    Entry{.name = "direct", .op = OpKind::ReduceScatterV, .build = direct_reduce_scatter, .keeps_order = true},
    Entry{.name = "star", .op = OpKind::AllReduce, .build = star_all_reduce, .keeps_order = true},
    Entry{"star", OpKind::AllGather, star_all_gather},
    Entry{.name = "star", .op = OpKind::ReduceScatter, .build = star_reduce_scatter, .keeps_order = true},
    Entry{"linear", OpKind::GatherV, direct_gather},
    Entry{"linear", OpKind::ScatterV, direct_scatter},
    Entry{"dissemination", OpKind::Barrier, dissemination_barrier, true},
    Entry{"star", OpKind::Barrier, star_barrier},
    Entry{"hierarchical", OpKind::AllReduce, hierarchical_all_reduce, false, false, true},
    Entry{"hierarchical", OpKind::AllGather, hierarchical_all_gather, false, false, true},
    Entry{"hierarchical", OpKind::Broadcast, hierarchical_broadcast, false, false, true},
    Entry{"hierarchical", OpKind::Reduce, hierarchical_reduce, false, false, true},
    Entry{"hierarchical", OpKind::Barrier, hierarchical_barrier, false, false, true},
    Entry{"hierarchical_split", OpKind::AllReduce, hierarchical_split_all_reduce, false, false, true},
};

/// Whether there are several hosts, of which some have several ranks.
bool has_hosts(const Problem& problem) {
  std::vector<int> different = problem.hosts;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  return different.size() > 1 && different.size() < problem.hosts.size();
}

}  // namespace

std::span<const Entry> table() { return kAlgorithms; }

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

bool fits(const Entry& entry, const Problem& problem) {
  if (entry.needs_hosts && !has_hosts(problem)) return false;
  if (problem.in_order && is_reduction(problem.op) && !entry.keeps_order) return false;
  return !entry.needs_power_of_two || std::has_single_bit(static_cast<unsigned>(problem.world_size));
}

double bytes_of(const Problem& problem, std::size_t element_bytes) {
  const std::size_t count = has_counts(problem.op) ? block_of(problem, problem.world_size).offset : problem.count;
  return static_cast<double>(count) * static_cast<double>(element_bytes);
}

}  // namespace tutti::comm::algorithms
