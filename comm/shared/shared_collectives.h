// SharedCollectives: collectives of ranks that all share one host's memory, without messages.
//
// Short ones travel in the announcements and slots of the board: one write by each rank, one read by each other. Long
// ones go over stages, a chunk at a time: everybody stages its contribution, reduces its share of all contributions
// where they lie, and takes the shares of the others; chunks overlap, and stay in the caches. If the buffers of all
// ranks are registered (registered_heap.h), nothing is copied: each rank reduces its share of all buffers in place and
// writes it into all of them.
//
// Every element is reduced from the left in the order of ranks, by one rank or by all alike: all ranks hold the same
// bits, whatever the length of the vector and the size of a chunk. Sources: Jain et al., "Framework for Scalable
// Intra-Node Collective Operations using Shared Memory" (SC 2018); Parsons and Pai, "Accelerating MPI Collective
// Communications through Hierarchical Algorithms Without Sacrificing Inter-Node Communication Flexibility" (IPDPS
// 2014).
//
// Errors: as Executor::run. Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/schedule/executor.h>
#include <tutti/comm/shared/board.h>
#include <tutti/comm/shared/registered_heap.h>

#include <cstddef>
#include <vector>

namespace tutti::comm {

class SharedCollectives {
 public:
  SharedCollectives(Neighbours& neighbours, Transport& transport, FailureMonitor& monitor, RegisteredHeap& heap)
      : board_(neighbours, transport, monitor), heap_(heap) {}

  /// Whether the operation is done here; the answer is the same on all ranks.
  static bool takes(OpKind op);

  /// Avg is divided here, too.
  void run(const Operation& operation);

 private:
  static constexpr std::size_t kInlineBytes = sizeof Turn::payload;  // that travel in the announcement

  // Everything in bytes, for `operation_`.
  void barrier();
  void broadcast();
  void all_gather();
  void reduce_scatter();
  /// reduce and all_reduce: `result` is null where this rank wants none.
  void reduce_to(const std::byte* input, std::byte* result);

  void inline_all_reduce(std::byte* data);
  void slot_reduce(const std::byte* input, std::byte* result);
  void staged_reduce(const std::byte* input, std::byte* result);
  std::size_t await_memory(std::byte* own);
  void reduce_in_place(std::byte* data);
  void reduce_block_in_place(std::byte* data, std::size_t begin, std::size_t length);

  void begin();
  void announce() { board_.announce(); }
  /// target = the reduction, in rank order, of `length` bytes at source(rank) of all ranks; target may be none of them.
  template <typename Source>
  void reduce_all(std::byte* target, std::size_t length, Source source);
  void reduce(std::byte* target, const std::byte* incoming, std::size_t length, bool incoming_first = false);
  void average(std::byte* target, std::size_t length);

  Board board_;
  RegisteredHeap& heap_;
  const Operation* operation_ = nullptr;
  std::size_t element_ = 0;          // bytes
  std::size_t bytes_ = 0;            // count * element_
  std::vector<std::byte*> buffers_;  // of all ranks, by reduce_in_place
  std::vector<std::byte> block_;
};

}  // namespace tutti::comm
