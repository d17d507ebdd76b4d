// far_fence: a memory fence that a thread has all others pass, for two sides of which one goes by often and one rarely.
//
// Each side writes something and then looks at what the other writes; at least one of them must see the other's. Both
// need a fence in between, which waits until the write has reached all processors: long, where the line is another's.
// With far_fence() the rare side pays for both: the frequent side only keeps its compiler from changing the order.
// Thread-safety: any thread. Source: membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED, Linux 4.16.
#pragma once

namespace tutti::comm {

/// Says that this process's threads can be made to pass a fence, and may have others do so. False where the system has
/// no such thing; then both sides use an ordinary fence.
bool join_far_fences() noexcept;

/// When it returns, all threads of all processes that have joined have passed a fence. Only if this one has joined.
void far_fence() noexcept;

}  // namespace tutti::comm
