// ComputesHere: whether another process computes on this rank's CPU, which waiting threads learn from sched_yield()
// (failure/waiter.h).
//
// A yield that returned late means so for a while, in which it is better to sleep: longer each time, as every try costs
// a time slice. But for a short while only if many yields before it returned soon: then the scheduler only evens out
// the time that a rank has had before, and sleeping takes longer than waiting for one's turn.
//
// Thread-safety: any thread; updates of several at once may be lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tutti::comm {

class ComputesHere {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongAway{1};  // a yield to ranks that wait is shorter
  static constexpr std::chrono::microseconds kShortest{100}, kLongest{50'000};
  static constexpr int kOften = 16;

  bool until(Clock::time_point now) const {
    return now.time_since_epoch().count() < end_.load(std::memory_order_relaxed);
  }

  /// A thread yielded at `left` and is `back`.
  void gave_way(Clock::time_point left, Clock::time_point back) {
    const int often = soon_.load(std::memory_order_relaxed);
    if (back - left <= kLongAway) return soon_.store(std::min(often + 1, kOften), std::memory_order_relaxed);
    const auto last = std::chrono::microseconds(rest_us_.load(std::memory_order_relaxed));
    const auto rest = often >= kOften ? kShortest : std::clamp(2 * last, kShortest, kLongest);
    rest_us_.store(static_cast<int>(rest.count()), std::memory_order_relaxed);
    soon_.store(0, std::memory_order_relaxed);
    end_.store((back + rest).time_since_epoch().count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<Clock::rep> end_{Clock::time_point::min().time_since_epoch().count()};
  std::atomic<int> rest_us_{0};
  std::atomic<int> soon_{0};  // yields since the last long one
};

}  // namespace tutti::comm
