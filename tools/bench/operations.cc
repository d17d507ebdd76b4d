#include <tutti/tools/bench/operations.h>
#include <tutti/tools/commands.h>

#include <algorithm>
#include <array>

namespace tutti::tools::bench {
namespace {

using comm::Buffer;
using comm::OpKind;
using comm::ProcessGroup;

double once(int) { return 1; }

// Each rank has its own share already; the links carry the other n - 1.
double all_but_own(int n) { return (n - 1.0) / n; }

// A reduce_scatter followed by an all_gather.
double there_and_back(int n) { return 2 * (n - 1.0) / n; }

bool at_root(const Case& c) { return c.rank == c.root; }
std::size_t own_block(const Case& c) { return static_cast<std::size_t>(c.rank) * c.count; }

Origin same_place_in_all(const Case&, std::size_t i) { return {kAllRanks, i}; }
Origin same_place_at_root(const Case& c, std::size_t i) { return {c.root, i}; }
Origin block_of_each_rank(const Case& c, std::size_t i) { return {static_cast<int>(i / c.count), i % c.count}; }
Origin own_block_at_root(const Case& c, std::size_t i) { return {c.root, own_block(c) + i}; }
Origin own_block_in_all(const Case& c, std::size_t i) { return {kAllRanks, own_block(c) + i}; }
Origin own_block_of_each_rank(const Case& c, std::size_t i) {
  return {static_cast<int>(i / c.count), own_block(c) + i % c.count};
}
Origin the_partner(const Case& c, std::size_t i) { return {1 - c.rank, i}; }

Extents nothing(const Case&) { return {}; }
Extents share_in_place(const Case& c) { return {0, c.count}; }
Extents share_to_root(const Case& c) { return {c.count, at_root(c) ? c.count : 0}; }
Extents share_to_whole(const Case& c) { return {c.count, c.whole()}; }
Extents whole_to_share(const Case& c) { return {c.whole(), c.count}; }
Extents whole_to_whole(const Case& c) { return {c.whole(), c.whole()}; }
Extents share_to_whole_at_root(const Case& c) { return {c.count, at_root(c) ? c.whole() : 0}; }
Extents whole_at_root_to_share(const Case& c) { return {at_root(c) ? c.whole() : 0, c.count}; }
Extents share_of_two_ranks(const Case& c) { return c.rank < 2 ? Extents{c.count, c.count} : Extents{}; }

// Ranks 0 and 1 play, the others look on.
void ping_pong(ProcessGroup& group, const Case& c, const Buffer& input, const Buffer& output) {
  if (c.rank == 0) {
    group.send(input, 1);
    group.recv(output, 1);
  } else if (c.rank == 1) {
    group.recv(output, 0);
    group.send(input, 0);
  }
}

void all_reduce(ProcessGroup& g, const Case& c, const Buffer&, const Buffer& out) { g.all_reduce(out, c.redop); }
void broadcast(ProcessGroup& g, const Case& c, const Buffer&, const Buffer& out) { g.broadcast(out, c.root); }
void reduce(ProcessGroup& g, const Case& c, const Buffer& in, const Buffer& out) { g.reduce(in, out, c.redop, c.root); }
void all_gather(ProcessGroup& g, const Case&, const Buffer& in, const Buffer& out) { g.all_gather(in, out); }
void reduce_scatter(ProcessGroup& g, const Case& c, const Buffer& in, const Buffer& out) {
  g.reduce_scatter(in, out, c.redop);
}
void gather(ProcessGroup& g, const Case& c, const Buffer& in, const Buffer& out) { g.gather(in, out, c.root); }
void scatter(ProcessGroup& g, const Case& c, const Buffer& in, const Buffer& out) { g.scatter(in, out, c.root); }
void all_to_all(ProcessGroup& g, const Case&, const Buffer& in, const Buffer& out) { g.all_to_all(in, out); }
void barrier(ProcessGroup& g, const Case&, const Buffer&, const Buffer&) { g.barrier(); }

enum Trait : unsigned { kNone = 0, kWholeArray = 1, kReduces = 2, kRooted = 4, kInPlace = 8, kNoData = 16 };

constexpr Operation row(std::string_view name, OpKind kind, unsigned traits, decltype(Operation::bus_factor) bus_factor,
                        decltype(Operation::extents) extents, decltype(Operation::origin) origin,
                        decltype(Operation::run) run) {
  const bool is_message = kind == OpKind::Send;
  return {.name = name,
          .kind = kind,
          .min_ranks = is_message ? 2 : 1,
          .moves_data = (traits & kNoData) == 0,
          .whole_array = (traits & kWholeArray) != 0,
          .reduces = (traits & kReduces) != 0,
          .rooted = (traits & kRooted) != 0,
          .in_place = (traits & kInPlace) != 0,
          .time_share = is_message ? 0.5 : 1,
          .bus_factor = bus_factor,
          .extents = extents,
          .origin = origin,
          .run = run};
}

constexpr std::array kOperations = {
    row("all_reduce", OpKind::AllReduce, kReduces | kInPlace, there_and_back, share_in_place, same_place_in_all,
        all_reduce),
    row("broadcast", OpKind::Broadcast, kRooted | kInPlace, once, share_in_place, same_place_at_root, broadcast),
    row("reduce", OpKind::Reduce, kReduces | kRooted, once, share_to_root, same_place_in_all, reduce),
    row("all_gather", OpKind::AllGather, kWholeArray, all_but_own, share_to_whole, block_of_each_rank, all_gather),
    row("reduce_scatter", OpKind::ReduceScatter, kWholeArray | kReduces, all_but_own, whole_to_share, own_block_in_all,
        reduce_scatter),
    row("gather", OpKind::Gather, kWholeArray | kRooted, all_but_own, share_to_whole_at_root, block_of_each_rank,
        gather),
    row("scatter", OpKind::Scatter, kWholeArray | kRooted, all_but_own, whole_at_root_to_share, own_block_at_root,
        scatter),
    row("all_to_all", OpKind::AllToAll, kWholeArray, all_but_own, whole_to_whole, own_block_of_each_rank, all_to_all),
    row("barrier", OpKind::Barrier, kNoData, once, nothing, same_place_at_root, barrier),
    row("ping_pong", OpKind::Send, kNone, once, share_of_two_ranks, the_partner, ping_pong),
};

}  // namespace

std::span<const Operation> operations() { return kOperations; }

std::vector<Operation> find_operations(std::span<const Operation> table, std::string_view name) {
  if (name == "all") return {table.begin(), table.end()};
  std::string known;
  for (const Operation& operation : table) {
    if (operation.name == name) return {operation};
    known += std::string(operation.name) + ", ";
  }
  throw WrongUsage("unknown operation '" + std::string(name) + "'; known are " + known + "and all");
}

std::size_t count_for(const Operation& operation, std::size_t bytes, std::size_t element_bytes, int world_size) {
  if (!operation.moves_data) return 0;
  const std::size_t shares = operation.whole_array ? static_cast<std::size_t>(world_size) : 1;
  return std::max<std::size_t>(1, bytes / element_bytes / shares);
}

std::size_t bytes_for(const Operation& operation, std::size_t count, std::size_t element_bytes, int world_size) {
  return count * element_bytes * (operation.whole_array ? static_cast<std::size_t>(world_size) : 1);
}

}  // namespace tutti::tools::bench
