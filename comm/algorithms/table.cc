#include <tutti/comm/algorithms/table.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>

namespace tutti::comm::algorithms {
namespace {

// --- What each costs

/// Rounds in which all ranks send and receive, or a tree's: `rounds` messages of a vector each.
Cost rounds_of_vectors(double rounds, double added) { return {rounds, rounds, added}; }

/// What ranks beyond a power of two add: they hand their vector to a neighbour, and get the result back.
double messages_of_fold(const Ranks& r) { return r.q < r.p ? 2 : 0; }

/// Cut into segments, which are added while others come, but pay for a message each.
Cost ring_all_reduce_cost(const Ranks& r) {
  const double segments = std::ceil(r.segments / r.p);
  return {2 * (r.p - 1) * segments, 2 * (r.p - 1) / r.p, (r.p - 1) / r.p / segments};
}
Cost recursive_doubling_cost(const Ranks& r) {
  return rounds_of_vectors(r.lg_q + messages_of_fold(r), r.lg_q + messages_of_fold(r) / 2);
}
Cost rabenseifner_cost(const Ranks& r) {
  const double fold = messages_of_fold(r);
  return {2 * r.lg_q + fold, 2 * (r.q - 1) / r.q + fold, (r.q - 1) / r.q + fold / 2};
}
Cost tree_all_reduce_cost(const Ranks& r) { return rounds_of_vectors(2 * r.lg_p, r.lg_p); }
Cost tree_broadcast_cost(const Ranks& r) { return rounds_of_vectors(r.lg_p, 0); }
Cost tree_reduce_cost(const Ranks& r) { return rounds_of_vectors(r.lg_p, r.lg_p); }
Cost star_all_reduce_cost(const Ranks& r) { return rounds_of_vectors(2 * (r.p - 1), r.p - 1); }

/// p - 1 stages, of which each lets in a segment after the other.
Cost chain_cost(const Ranks& r, double added) {
  const double messages = r.p - 2 + r.segments;
  return {messages, messages / r.segments, added / r.segments};
}
Cost chain_broadcast_cost(const Ranks& r) { return chain_cost(r, 0); }
Cost chain_reduce_cost(const Ranks& r) { return chain_cost(r, r.p - 1); }

/// `first` messages until the first pieces are through, and `further` for each further pair of pieces. Read off
/// simulations of 4 to 100 ranks: a rank must pass 2 messages each way for a pair (4 in all_reduce), and its partners
/// are not always ready in turn.
Cost double_tree_cost(const Ranks& r, double first, double further, double added) {
  const double pieces = std::ceil(r.segments / 2);  // of each half
  const double messages = first + further * (pieces - 1);
  return {messages, messages / (2 * pieces), added / (2 * pieces)};
}
Cost double_tree_all_reduce_cost(const Ranks& r) { return double_tree_cost(r, 4 * r.lg_p - 1, 5.5, r.lg_p); }
Cost double_tree_broadcast_cost(const Ranks& r) { return double_tree_cost(r, 2 * r.lg_p, 2.5, 0); }
Cost double_tree_reduce_cost(const Ranks& r) { return double_tree_cost(r, 2 * r.lg_p, 3, r.lg_p); }

/// Within hosts the two halves of a ring, and between them an all_reduce of one part.
Cost split_within_cost(const Ranks& r) { return {2 * (r.p - 1), 2 * (r.p - 1) / r.parts, (r.p - 1) / r.parts}; }
Cost split_among_cost(const Ranks& r) {
  const Cost whole = rabenseifner_cost(r);
  return {whole.messages, whole.sent / r.parts, whole.added / r.parts};
}

// Blocks: p - 1 of them are sent to or from each rank, or the root, in as many messages or in lg p.
Cost all_blocks_cost(const Ranks& r) { return {r.p - 1, r.p - 1, 0}; }
Cost blocks_in_rounds_cost(const Ranks& r) { return {r.lg_p, r.p - 1, 0}; }
Cost all_sums_cost(const Ranks& r) { return {r.p - 1, r.p - 1, r.p - 1}; }
Cost sums_in_rounds_cost(const Ranks& r) { return {r.lg_p, r.p - 1, r.p - 1}; }
Cost star_all_gather_cost(const Ranks& r) { return {2 * (r.p - 1), (r.p - 1) * (r.p + 1), 0}; }
Cost star_reduce_scatter_cost(const Ranks& r) { return {2 * (r.p - 1), (r.p - 1) * (r.p + 1), (r.p - 1) * r.p}; }
Cost bruck_all_to_all_cost(const Ranks& r) { return {r.lg_p, r.p / 2 * r.lg_p, 0}; }
Cost rounds_cost(const Ranks& r) { return {r.lg_p, 0, 0}; }
Cost star_barrier_cost(const Ranks& r) { return {2 * (r.p - 1), 0, 0}; }

// --- The table

constexpr std::array kAlgorithms = {
    Entry{"ring", OpKind::AllReduce, ring_all_reduce, ring_all_reduce_cost, kRotates | kHasNoGaps},
    Entry{"ring", OpKind::AllGather, ring_all_gather, all_blocks_cost, kRotates | kHasNoGaps},
    Entry{"ring", OpKind::ReduceScatter, ring_reduce_scatter, all_sums_cost, kRotates},
    Entry{"ring", OpKind::AllGatherV, ring_all_gather, all_blocks_cost, kHasNoGaps},
    Entry{"ring", OpKind::ReduceScatterV, ring_reduce_scatter, all_sums_cost},
    Entry{"recursive_doubling", OpKind::AllReduce, recursive_doubling_all_reduce, recursive_doubling_cost, kKeepsOrder},
    Entry{"rabenseifner", OpKind::AllReduce, rabenseifner_all_reduce, rabenseifner_cost, kKeepsOrder | kHasNoGaps},
    Entry{"bruck", OpKind::AllGather, bruck_all_gather, blocks_in_rounds_cost, kRotates},
    Entry{"bruck", OpKind::ReduceScatter, bruck_reduce_scatter, sums_in_rounds_cost, kRotates},
    Entry{"pairwise", OpKind::AllToAll, pairwise_all_to_all, all_blocks_cost, kRotates},
    Entry{"bruck", OpKind::AllToAll, bruck_all_to_all, bruck_all_to_all_cost, kRotates},
    Entry{"pairwise", OpKind::AllToAllV, pairwise_all_to_all, all_blocks_cost},
    Entry{"binomial", OpKind::Broadcast, binomial_broadcast, tree_broadcast_cost},
    Entry{"binomial", OpKind::Reduce, binomial_reduce, tree_reduce_cost, kKeepsOrder},
    Entry{"binomial", OpKind::AllReduce, binomial_all_reduce, tree_all_reduce_cost, kKeepsOrder},
    Entry{"chain", OpKind::Broadcast, chain_broadcast, chain_broadcast_cost},
    Entry{"chain", OpKind::Reduce, chain_reduce, chain_reduce_cost},
    Entry{"double_tree", OpKind::AllReduce, double_tree_all_reduce, double_tree_all_reduce_cost},
    Entry{"double_tree", OpKind::Broadcast, double_tree_broadcast, double_tree_broadcast_cost},
    Entry{"double_tree", OpKind::Reduce, double_tree_reduce, double_tree_reduce_cost},
    Entry{"direct", OpKind::Gather, direct_gather, all_blocks_cost},
    Entry{"direct", OpKind::Scatter, direct_scatter, all_blocks_cost},
    Entry{"binomial", OpKind::Gather, binomial_gather, blocks_in_rounds_cost},
    Entry{"binomial", OpKind::Scatter, binomial_scatter, blocks_in_rounds_cost},
    Entry{"direct", OpKind::ReduceScatter, direct_reduce_scatter, all_sums_cost, kKeepsOrder},
    Entry{"direct", OpKind::ReduceScatterV, direct_reduce_scatter, all_sums_cost, kKeepsOrder},
    Entry{"star", OpKind::AllReduce, star_all_reduce, star_all_reduce_cost, kKeepsOrder},
    Entry{"star", OpKind::AllGather, star_all_gather, star_all_gather_cost},
    Entry{"star", OpKind::ReduceScatter, star_reduce_scatter, star_reduce_scatter_cost, kKeepsOrder},
    Entry{"linear", OpKind::GatherV, direct_gather, all_blocks_cost},
    Entry{"linear", OpKind::ScatterV, direct_scatter, all_blocks_cost},
    Entry{"dissemination", OpKind::Barrier, dissemination_barrier, rounds_cost, kRotates},
    Entry{"star", OpKind::Barrier, star_barrier, star_barrier_cost},
    Entry{"hierarchical", OpKind::AllReduce, hierarchical_all_reduce, recursive_doubling_cost, kNeedsHosts,
          tree_all_reduce_cost},
    Entry{"hierarchical", OpKind::Broadcast, hierarchical_broadcast, tree_broadcast_cost, kNeedsHosts,
          tree_broadcast_cost},
    Entry{"hierarchical", OpKind::Reduce, hierarchical_reduce, tree_reduce_cost, kNeedsHosts, tree_reduce_cost},
    Entry{"hierarchical_split", OpKind::AllReduce, hierarchical_split_all_reduce, split_among_cost, kNeedsHosts,
          split_within_cost},
};

/// Whether there are several hosts, of which some have several ranks.
bool has_hosts(const Problem& problem) {
  const std::set<int> different(problem.hosts.begin(), problem.hosts.end());
  return different.size() > 1 && different.size() < problem.hosts.size();
}

}  // namespace

Ranks::Ranks(int number, double segments_of_a_vector, double parts_of_a_vector)
    : p(number),
      lg_p(std::bit_width(static_cast<unsigned>(number) - 1)),
      q(std::bit_floor(static_cast<unsigned>(number))),
      lg_q(std::bit_width(static_cast<unsigned>(number)) - 1),
      segments(segments_of_a_vector),
      parts(parts_of_a_vector) {}

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
  if (entry.has(kNeedsHosts) && !has_hosts(problem)) return false;
  return !problem.in_order || !is_reduction(problem.op) || entry.has(kKeepsOrder);
}

double bytes_of(const Problem& problem, std::size_t element_bytes) {
  const std::size_t count = has_counts(problem.op) ? block_of(problem, problem.world_size).offset : problem.count;
  return static_cast<double>(count) * static_cast<double>(element_bytes);
}

}  // namespace tutti::comm::algorithms
