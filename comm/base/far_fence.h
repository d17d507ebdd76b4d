// far_fence: a memory fence that a thread has all others pass, for two sides of which one goes by often and one rarely.
//
// Each side writes something and then looks at what the other writes; at least one of them must see the other's. Both
// need a fence in between, which waits until the write has reached all processors: long, where the line is another's.
// With far_fence() the rare side pays for both: the frequent side only keeps its compiler from changing the order.
// Thread-safety: any thread. Source: membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED, Linux 4.16.
#pragma once

#include <atomic>

namespace tutti::comm {

/// Says that this process's threads can be made to pass a fence, and may have others do so. False where the system has
/// no such thing; then both sides use an ordinary fence.
bool join_far_fences() noexcept;

/// When it returns, all threads of all processes that have joined have passed a fence. Only if this one has joined.
void far_fence() noexcept;

/// Both sides' fences, where all of them are threads of this process.
class FencePair {
 public:
  /// For the side that goes by often: between its write and its look.
  void near() const {
    if (joined_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  /// The same for the other one.
  void far() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (joined_) far_fence();
  }

 private:
  const bool joined_ = join_far_fences();
};

}  // namespace tutti::comm
