// Problem: one collective as one rank sees it. Schedule: that rank's part of it, as data.
//
// An algorithm is a pure function that returns the Schedule of one rank. The executor runs it over any transport, the
// checker proves it (checker.h). Offsets and counts are in elements, so that a schedule does not depend on the type.
//
// Rules that every schedule obeys (the checker enforces them):
//  - The k-th Send from a to b matches the k-th Recv or RecvReduce at b from a, with the same count. Steps that talk to
//    the same peer in the same direction are performed in the order of their indices.
//  - `after` names earlier steps (smaller indices) that must be complete before this one may touch memory. A Send is
//    complete when its source may be overwritten; everything else when its target holds the result.
//  - Two steps that touch the same elements, one of them writing, are ordered by a chain of `after`.
//  - Input is never written.
#pragma once

#include <tutti/comm/base/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// What a buffer holds: nothing, a rank's own block, or the blocks of all ranks; at the root only, or on each rank.
enum class Blocks : std::uint8_t { None, One, All, OneAtRoot, AllAtRoot };

struct Form {
  Blocks input = Blocks::None;
  Blocks output = Blocks::None;
};

/// What an operation's input and output hold. broadcast and all_reduce work in the output.
constexpr Form form_of(OpKind op) {
  switch (op) {
    case OpKind::Broadcast:
    case OpKind::AllReduce:
      return {Blocks::None, Blocks::One};
    case OpKind::Reduce:
      return {Blocks::One, Blocks::OneAtRoot};
    case OpKind::Gather:
    case OpKind::GatherV:
      return {Blocks::One, Blocks::AllAtRoot};
    case OpKind::AllGather:
    case OpKind::AllGatherV:
    case OpKind::Split:
      return {Blocks::One, Blocks::All};
    case OpKind::Scatter:
    case OpKind::ScatterV:
      return {Blocks::AllAtRoot, Blocks::One};
    case OpKind::ReduceScatter:
    case OpKind::ReduceScatterV:
      return {Blocks::All, Blocks::One};
    case OpKind::AllToAll:
    case OpKind::AllToAllV:
      return {Blocks::All, Blocks::All};
    default:
      return {};
  }
}

constexpr bool only_at_root(Blocks blocks) { return blocks == Blocks::OneAtRoot || blocks == Blocks::AllAtRoot; }

/// Elements of a buffer: `one` has this rank's block, `all` have those of all ranks.
constexpr std::size_t elements_of(Blocks blocks, bool is_root, std::size_t one, std::size_t all) {
  if (blocks == Blocks::None || (only_at_root(blocks) && !is_root)) return 0;
  return blocks == Blocks::One || blocks == Blocks::OneAtRoot ? one : all;
}

/// One collective as one rank sees it. `count` is per rank (schedule.h); `root` matters where the operation has one.
struct Problem {
  OpKind op = OpKind::AllReduce;
  int rank = 0;
  int world_size = 1;
  std::size_t count = 0;
  int root = 0;
  std::size_t segment_count = 0;  // largest number of elements a step should move at once; 0 = no limit; see select()
  /// The v-forms, which do not use `count`: elements of each rank. all_to_all_v: what this rank sends to each, together
  /// with recv_counts; or, if recv_counts is empty, the table of all ranks, row by row: counts[i * world_size + j]
  /// elements go from i to j.
  std::vector<std::size_t> counts{};
  std::vector<int> hosts{};                // rank -> number of its host, any numbers; empty: one host, or unknown
  std::vector<std::size_t> recv_counts{};  // all_to_all_v: what this rank receives from each
  bool in_order = false;                   // reductions: operands must be combined in the order of their ranks
  bool left_fold = false;                  // reductions: and bracketed as ((0 + 1) + 2) + ..., so that bits are fixed
};

/// Elements [offset, offset + count) of a buffer.
struct Range {
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// Block `rank` of all ranks' blocks, in the v-forms as their counts say; rank = world_size gives {total, 0}. Not for
/// all_to_all_v.
Range block_of(const Problem& problem, int rank);

/// all_to_all_v, from problem.rank's point of view: its block for or from `peer` in Input or Output.
Range sent_block(const Problem& problem, int peer);  // peer = world_size: {total, 0}
Range received_block(const Problem& problem, int peer);

enum class BufferId : std::uint8_t { Input, Output, Scratch };

struct Slice {
  BufferId buffer = BufferId::Output;
  std::size_t offset = 0;
  std::size_t count = 0;

  bool operator==(const Slice&) const = default;
};

struct Step {
  enum class Kind : std::uint8_t {
    Send,        // source -> peer
    Recv,        // peer -> target
    RecvReduce,  // target = target (+) what peer sends; or the other way round, see incoming_first
    Copy,        // target = source
    Reduce,      // target = target (+) source; or the other way round, see incoming_first
  };

  Kind kind = Kind::Send;
  int peer = -1;
  Slice source;
  Slice target;
  bool incoming_first = false;       // RecvReduce, Reduce: target = incoming (+) target
  std::vector<std::uint32_t> after;  // indices of earlier steps
};

/// What each buffer means, per operation (n = count per rank, p = world size; "in" = filled by the caller):
///   broadcast   Output[n]: in at the root                 all_reduce  Output[n]: in, in place
///   reduce      Input[n]; Output[n] at the root           gather      Input[n]; Output[p*n] at the root
///   all_gather  Input[n]; Output[p*n]                     scatter     Input[p*n] at the root; Output[n]
///   reduce_scatter, all_to_all  Input[p*n]; Output[n], Output[p*n]
///   gather_v, scatter_v, all_gather_v, reduce_scatter_v  as without v, with c(rank) for n, the sum of all c for p*n
///   all_to_all_v  Input[what this rank sends to each]; Output[what it receives from each], in rank order
///   barrier     no memory; messages of count 0
/// Input and Output may be the same memory where the public API says so; copies onto themselves are skipped.
struct Schedule {
  std::string_view algorithm;  // "ring", "recursive_doubling", ...: a literal
  std::vector<Step> steps;
  std::size_t scratch_count = 0;
};

/// The table above as functions: elements of `buffer` at `rank`; `scratch_count` is the schedule's.
std::size_t extent(const Problem& problem, int rank, BufferId buffer, std::size_t scratch_count);

/// Whether the caller has put this rank's data into `buffer` before the schedule starts.
bool is_filled(const Problem& problem, int rank, BufferId buffer);

/// Where in Output a rank's Input may lie: at the root of a reduce, and in all_gather as the rank's own block. Nowhere
/// for others.
std::optional<std::size_t> in_place_offset(const Problem& problem, int rank);

/// "step 5 at rank 2 (recv_reduce from rank 1 into output[8, 12))"
std::string describe(int rank, std::size_t index, const Step& step);

/// "output[8, 12)"
std::string describe(const Slice& slice);

std::string_view name(BufferId buffer);  // "input", "output", "scratch"

inline bool sends(const Step& step) { return step.kind == Step::Kind::Send; }
inline bool receives(const Step& step) { return step.kind == Step::Kind::Recv || step.kind == Step::Kind::RecvReduce; }
inline bool has_source(const Step& step) { return !receives(step); }
inline bool has_target(const Step& step) { return !sends(step); }
/// The target is read too.
inline bool reduces(const Step& step) { return step.kind == Step::Kind::RecvReduce || step.kind == Step::Kind::Reduce; }

}  // namespace tutti::comm
