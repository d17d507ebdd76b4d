// Problem: one collective as one rank sees it; what schedules are made for and checked against.
//
// Thread-safety: values and pure functions.
#pragma once

#include <tutti/comm/base/types.h>

#include <cstddef>
#include <vector>

namespace tutti::comm {

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

}  // namespace tutti::comm
