// ComputesHere: whether somebody computes on this rank's processor, which waiting threads find out by giving way
// (failure/waiter.h).
//
// Who comes back late believes it for a while, in which it is better to sleep: longer each time, as every try takes a
// time slice. But for a short while only if it was often back soon since the last time: then it was the scheduler,
// which makes up for what a rank has had before, and to sleep takes longer than to wait for one's turn.
//
// Thread-safety: any thread; of several at once one may be overlooked.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tutti::comm {

class ComputesHere {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongAway{1};  // other ranks that wait are back sooner
  static constexpr std::chrono::microseconds kShortest{100}, kLongest{50'000};
  static constexpr int kOften = 16;

  bool until(Clock::time_point now) const {
    return now.time_since_epoch().count() < end_.load(std::memory_order_relaxed);
  }

  /// A thread gave way at `left` and is `back`.
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
