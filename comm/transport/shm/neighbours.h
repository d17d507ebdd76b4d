// Neighbours: the ranks of a group that share this host's segment: which they are, whether they live, how to wake them.
//
// Thread-safety: any thread may call anything; sleep() from several threads at once too.
#pragma once

#include <poll.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/transport/shm/segment.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace tutti::comm {

class Neighbours {
 public:
  /// `ranks` are the group's ranks in the segment, ascending; `self` is one of them. Throws System.
  Neighbours(HostSegment segment, std::vector<int> ranks, int self);
  ~Neighbours();

  const HostSegment& segment() const { return segment_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  int self() const { return self_; }  // index
  int rank_of(int index) const { return ranks_[static_cast<std::size_t>(index)]; }
  int index_of(int rank) const;  // -1: on another host

  /// Wakes the other rank, or any other, that may sleep until something that this rank has made visible.
  void nudge(int index) {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // visible before sleepers are checked; see Doorbell
    wake_sleeper(index);
  }
  void nudge_all() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (int index = 0; index < size(); ++index)
      if (index != self_) wake_sleeper(index);
  }

  /// Whether that rank and this one share no last-level cache: long writes for each other then better use non-temporal
  /// stores. A line from another cache comes later than one from memory, and few of them at a time: between chiplets of
  /// an AMD EPYC a copy makes 2 GB/s by ordinary stores, by non-temporal ones 8. Source: Velten et al. (ICPE 2022),
  /// "Memory Performance of AMD EPYC Rome and Intel Cascade Lake SP Server Processors".
  bool is_far(int index) const {
    const auto cache_of = [&](int rank) {
      return segment_.state(rank).last_cache.load(std::memory_order_relaxed) + kUnknownCache;
    };
    const int mine = cache_of(self_), theirs = cache_of(index);
    return theirs != kUnknownCache && mine != kUnknownCache && (theirs != mine || theirs == kSeveralCaches);
  }

  /// Whether it has left the group or died, as far as is known: a thread that sleeps notices a death.
  bool gone(int index) const {
    return dead_[static_cast<std::size_t>(index)].load(std::memory_order_relaxed) ||
           segment_.state(index).closed.load(std::memory_order_acquire) != 0;
  }
  /// Why gone() is true, for an error text.
  std::string reason(int index) const;

  /// A call of this rank has failed. To be called before its caller learns of it: then its buffers are its own again.
  void give_up() { segment_.state(self_).gave_up.store(1, std::memory_order_seq_cst); }
  bool gave_up(int index) const { return segment_.state(index).gave_up.load(std::memory_order_acquire) != 0; }

  /// Tells the others that this rank leaves, and wakes them.
  void close();

  /// Sleeps until a neighbour or wake() rings, one of `awaited` (indices) dies, or `timeout` passes; not at all if
  /// `ready()` is true. May return early.
  void sleep(const std::function<bool()>& ready, const std::vector<int>& awaited, std::chrono::milliseconds timeout);

  /// Makes every sleep() of this rank return.
  void wake_self() { doorbell_.ring(); }

  /// A thread that is about to sleep: from construction on it is rung.
  class Sleeper {
   public:
    explicit Sleeper(Neighbours& neighbours);
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    Neighbours& neighbours_;
  };

  /// What to poll for the bell, and for the deaths of `awaited` (indices).
  void add_to(std::vector<pollfd>& polled, const std::vector<int>& awaited);
  /// Reads the result of poll for add_to(polled, awaited), which began at `first`. True if the bell was rung.
  bool after_poll(const std::vector<pollfd>& polled, std::size_t first, const std::vector<int>& awaited);

 private:
  void wake_sleeper(int index) {
    if (segment_.state(index).sleepers.load(std::memory_order_relaxed) > 0) wake(index);
  }
  void wake(int index);
  int watch(int index);

  HostSegment segment_;
  const std::vector<int> ranks_;
  const int self_;
  Doorbell doorbell_;
  std::vector<std::atomic<bool>> dead_;
  std::mutex watches_mutex_;
  std::vector<int> watches_;  // a pidfd for each index, -1 until needed; guarded by watches_mutex_
};

}  // namespace tutti::comm
