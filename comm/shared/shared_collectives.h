// SharedCollectives: collectives of ranks that all share one host's memory, without messages.
//
// Short ones travel in the announcements and slots: one write by each rank, one read by each other. Long
// ones go over stages, a chunk at a time: every rank stages its contribution, reduces its share of all contributions
// where they lie, and copies the shares of the others; chunks overlap, and stay in the caches.
//
// If the buffers of all ranks are registered (registered_heap.h), nothing is copied on the way: each rank reduces its
// share of all buffers where they lie (all_reduce, reduce_scatter), and writes its part of the result into all of them
// (all_reduce, all_gather). all_reduce_rounded reads the sums and writes the results, each once. A broadcast is read
// from the root's buffer, if that is registered.
//
// Every element is reduced from the left in the order of ranks, by one rank or by all alike: all ranks hold the same
// bits, whatever the length of the vector and the size of a chunk. Sources: Jain et al., "Framework for Scalable
// Intra-Node Collective Operations using Shared Memory" (SC 2018); Parsons and Pai, "Accelerating MPI Collective
// Communications through Hierarchical Algorithms Without Sacrificing Inter-Node Communication Flexibility" (IPDPS
// 2014).
//
// Errors: as Executor::run. Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/base/copy.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/schedule/executor.h>
#include <tutti/comm/shared/announcements.h>
#include <tutti/comm/shared/registered_heap.h>
#include <tutti/comm/shared/stages.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::comm {

class SharedCollectives {
 public:
  SharedCollectives(Neighbours& neighbours, Transport& transport, FailureMonitor& monitor, RegisteredHeap& heap)
      : announcements_(neighbours, transport, monitor),
        stages_(neighbours, announcements_),
        heap_(heap),
        sources_(static_cast<std::size_t>(announcements_.ranks())) {}

  /// Whether the operation is done here; the answer is the same on all ranks.
  static bool takes(OpKind op);

  /// Avg is divided here, too.
  void run(const Operation& operation);

  /// Notes an operation that was done by messages.
  void note_messages(const Fingerprint& operation) { announcements_.note_messages(operation); }

 private:
  // From this length on what far ranks will read is written by non-temporal stores.
  static constexpr std::size_t kStreamShown = 4 * 1024;
  // The most that the last-level cache is taken to hold: a larger one serves more programs than this.
  static constexpr std::size_t kMostCached = 64 * 1024 * 1024;
  /// Whether a result of so many bytes, gathered or broadcast, is written by non-temporal stores: it would not stay in
  /// the cache with those of the other ranks and what lies `beside` them. (What is reduced in place has just been read,
  /// and is there.)
  bool past_caches(std::size_t result, std::size_t beside) const {
    return result * static_cast<std::size_t>(announcements_.ranks()) + beside >
           std::min(last_cache_bytes(), kMostCached);
  }

  // Everything in bytes, for `operation_`.
  void perform();
  void broadcast(std::byte* data);
  void staged_broadcast(std::byte* data);
  void all_gather(const std::byte* input, std::byte* output);
  void slot_all_gather(const std::byte* input, std::byte* output);
  void staged_all_gather(const std::byte* input, std::byte* output);
  void reduce_scatter(const std::byte* input, std::byte* output);
  void await_staged(const Chunk& chunk);
  void staged_reduce_scatter(const std::byte* input, std::byte* output);
  /// reduce and all_reduce: `result` is null where this rank wants none.
  void reduce_to(const std::byte* input, std::byte* result);
  void all_reduce_rounded(std::byte* sums, std::byte* rounded);
  void slot_reduce(const std::byte* input, std::byte* result);
  void staged_reduce(const std::byte* input, std::byte* result);

  // In registered buffers.
  struct Place {  // of one of this rank's buffers
    std::byte* data;
    std::optional<std::uint64_t> known;  // what others find it by; none: it is not registered
  };
  Place find_buffer(const std::byte* data, std::size_t bytes) const;
  enum Which : std::size_t { kBuffer, kResult };  // the result where it is not in the buffer
  void announce(const Place& buffer, const Place& result = {});
  std::byte* await_buffer(int index, Which which, std::size_t bytes);
  int await_buffers(std::vector<std::byte*>& found, Which which, std::size_t bytes);
  bool all_announce(const std::byte* buffer, std::size_t bytes);
  std::size_t enter_share(std::vector<std::byte*>& buffers, std::size_t element) const;
  void leave_buffers();
  void reduce_in_place();
  void round_in_place();
  void gather_in_place(const std::byte* input);
  void broadcast_in_place(std::byte* to, const std::byte* from);

  /// Whether so many bytes for other ranks to read go past the caches.
  bool streams_shown(std::size_t bytes) const { return announcements_.streams() && bytes >= kStreamShown; }
  /// Copies what is short to where other ranks read it after the announcement.
  void show(const std::byte* from, std::size_t bytes) {
    copy_out(announcements_.shown(announcements_.self(), bytes), from, bytes, streams_shown(bytes));
  }
  void announce() { announcements_.announce(); }
  /// target = the reduction, in rank order, of `length` bytes: this rank's at `own`, which may be the target, and what
  /// source(rank) gives of the others. `own` is the caller's buffer: this rank's stage is as far away as the others',
  /// once another CPU has read it. `shown`, if not null, is for others to read, and gets the same; one of the two may
  /// be null.
  template <typename Source>
  void reduce_all(std::byte* target, std::size_t length, const std::byte* own, Source source,
                  std::byte* shown = nullptr);

  /// Elements of a vector of `count` at which share `index` of `ranks` begins.
  static std::size_t share(std::size_t count, int index, int ranks) {
    return count * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks);
  }

  Announcements announcements_;
  Stages stages_;
  RegisteredHeap& heap_;
  const Operation* operation_ = nullptr;
  std::size_t element_ = 0;                // bytes
  std::size_t bytes_ = 0;                  // count * element_
  std::array<std::byte*, 2> own_{};        // this rank's, by Which
  std::vector<std::byte*> buffers_;        // of all ranks; null: not registered
  std::vector<std::byte*> results_;        // the same
  std::vector<const std::byte*> sources_;  // of all ranks, for a reduction
};

template <typename Source>
void SharedCollectives::reduce_all(std::byte* target, std::size_t length, const std::byte* own, Source source,
                                   std::byte* shown) {
  for (int index = 0; index < announcements_.ranks(); ++index)
    sources_[static_cast<std::size_t>(index)] = index == announcements_.self() ? own : source(index);
  const std::array<std::byte*, 2> targets{target ? target : shown, shown};
  const Fingerprint& f = operation_->fingerprint;
  const std::size_t count = length == bytes_ ? f.count : length / element_;  // avoids a division
  const bool in_one_pass = target && shown && !announcements_.streams();
  comm::reduce_all({targets.data(), in_one_pass ? 2u : 1u}, sources_, count, f.dtype, f.reduce_op);
  if (target && shown && !in_one_pass) copy_out(shown, target, length, streams_shown(length));
}

}  // namespace tutti::comm
