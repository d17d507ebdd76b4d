#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>

#include <array>
#include <numeric>
#include <string>

namespace tutti::comm::algorithms {
namespace {

using Algorithm = Schedule (*)(const Problem&);

struct Entry {
  std::string_view name;
  OpKind op;
  Algorithm build;
  bool rotates = false;      // whenever all chunks have the same length
  bool keeps_order = false;  // combines operands in the order of their ranks
};

constexpr std::array kAlgorithms = {
    Entry{"ring", OpKind::AllReduce, ring_all_reduce, true},
    Entry{"ring", OpKind::AllGather, ring_all_gather, true},
    Entry{"ring", OpKind::ReduceScatter, ring_reduce_scatter},
    Entry{"ring", OpKind::AllGatherV, ring_all_gather_v},
    Entry{"ring", OpKind::ReduceScatterV, ring_reduce_scatter_v},
    Entry{"recursive_doubling", OpKind::AllReduce, recursive_doubling_all_reduce, false, true},
    Entry{"recursive_doubling", OpKind::AllGather, recursive_doubling_all_gather},
    Entry{"recursive_halving", OpKind::ReduceScatter, recursive_halving_reduce_scatter},
    Entry{"rabenseifner", OpKind::AllReduce, rabenseifner_all_reduce, false, true},
    Entry{"bruck", OpKind::AllGather, bruck_all_gather, true},
    Entry{"bruck", OpKind::AllToAll, bruck_all_to_all},
    Entry{"pairwise", OpKind::AllToAll, pairwise_all_to_all},
    Entry{"pairwise", OpKind::AllToAllV, pairwise_all_to_all_v},
    Entry{"binomial", OpKind::Broadcast, binomial_broadcast},
    Entry{"binomial", OpKind::Reduce, binomial_reduce, false, true},
    Entry{"binomial", OpKind::Gather, binomial_gather},
    Entry{"binomial", OpKind::Scatter, binomial_scatter},
    Entry{"chain", OpKind::Broadcast, chain_broadcast},
    Entry{"van_de_geijn", OpKind::Broadcast, van_de_geijn_broadcast},
    Entry{"direct", OpKind::Broadcast, direct_broadcast},
    Entry{"direct", OpKind::Reduce, direct_reduce, false, true},
    Entry{"direct", OpKind::Gather, direct_gather},
    Entry{"direct", OpKind::Scatter, direct_scatter},
    Entry{"direct", OpKind::ReduceScatter, direct_reduce_scatter, false, true},
    Entry{"direct", OpKind::ReduceScatterV, direct_reduce_scatter_v, false, true},
    Entry{"linear", OpKind::GatherV, linear_gather_v},
    Entry{"linear", OpKind::ScatterV, linear_scatter_v},
    Entry{"dissemination", OpKind::Barrier, dissemination_barrier, true},
};

// Ring moves the fewest bytes but in the most messages: it wins once the time of a hop's bytes outweighs the latency of
// a message. Bytes in one hop from which on it is taken:
constexpr std::size_t kRingAllReduceMinHopBytes = 32'768;
constexpr std::size_t kRingAllGatherMinHopBytes = 32'768;
constexpr std::size_t kRingReduceScatterMinHopBytes = 32'768;

// Bruck's all_to_all sends lg p messages instead of p - 1, but each block travels several times and is copied each
// time. It is taken from so many ranks on, for blocks of up to so many bytes:
constexpr int kBruckAllToAllMinRanks = 8;
constexpr std::size_t kBruckAllToAllMaxBytes = 256;

std::string_view name_by_size(const Problem& problem, std::size_t element_bytes) {
  const std::size_t bytes = problem.count * element_bytes;
  const std::string_view long_all_reduce = problem.in_order ? "rabenseifner" : "ring";
  switch (problem.op) {
    case OpKind::AllReduce:
      return bytes / static_cast<std::size_t>(problem.world_size) >= kRingAllReduceMinHopBytes ? long_all_reduce
                                                                                               : "recursive_doubling";
    case OpKind::AllGather:
    case OpKind::Split:
      return bytes >= kRingAllGatherMinHopBytes ? "ring" : "recursive_doubling";
    case OpKind::ReduceScatter:
      if (problem.in_order) return "direct";
      return bytes >= kRingReduceScatterMinHopBytes ? "ring" : "recursive_halving";
    case OpKind::AllToAll:
      return problem.world_size >= kBruckAllToAllMinRanks && bytes <= kBruckAllToAllMaxBytes ? "bruck" : "pairwise";
    case OpKind::Broadcast:
    case OpKind::Reduce:
    case OpKind::Gather:
    case OpKind::Scatter:
      return "binomial";
    case OpKind::GatherV:
    case OpKind::ScatterV:
      return "linear";
    case OpKind::AllGatherV:
      return "ring";
    case OpKind::ReduceScatterV: {
      if (problem.in_order) return "direct";
      const std::size_t mean = block_offset(problem, problem.world_size) / static_cast<std::size_t>(problem.world_size);
      return mean * element_bytes >= kRingReduceScatterMinHopBytes ? "ring" : "direct";
    }
    case OpKind::AllToAllV:
      return "pairwise";
    case OpKind::Barrier:
    case OpKind::Shutdown:
      return "dissemination";
    case OpKind::Send:
    case OpKind::Recv:
      break;
  }
  throw Error(ErrorCode::InvalidArgument,
              "algorithm for " + std::string(name(problem.op)) + ": a point-to-point message has no schedule");
}

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

Algorithm find(OpKind op, std::string_view name) {
  const Entry* entry = find_entry(op, name);
  return entry == nullptr ? nullptr : entry->build;
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

/// What brackets from the left; not in the table, because nobody takes these for their speed.
Algorithm left_fold(OpKind op) {
  switch (op) {
    case OpKind::AllReduce:
      return fixed_all_reduce;
    case OpKind::Reduce:
      return fixed_reduce;
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

Schedule select(const Problem& problem, std::size_t element_bytes, std::string_view name) {
  Algorithm build = nullptr;
  if (!name.empty()) {
    require_known(name);
    const Entry* entry = find_entry(problem.op, name);
    if (entry != nullptr && (entry->keeps_order || !problem.in_order)) build = entry->build;
  }
  if (problem.left_fold && is_reduction(problem.op)) build = left_fold(problem.op);
  if (build == nullptr) build = find(problem.op, name_by_size(problem, element_bytes));
  return build(problem);
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
