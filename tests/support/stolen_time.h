// StolenTime: how much of a stretch of time this process could not use, because others had the processors or because it
// was stopped. A limit on how soon something is noticed is a promise about the program, not about the machine: tests of
// such limits leave this time out.
//
//   StolenTime stolen;                               // before the stretch begins
//   EXPECT_LT(end - start - stolen.between(start, end), limit);
//
// A thread asks to be woken every 5 ms and notes how late it is. On an idle machine that adds up to a few ms a second.
// Thread-safety: between() may be called from any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::test {

class StolenTime {
 public:
  using Clock = std::chrono::steady_clock;

  StolenTime() : thread_([this](const std::stop_token& stop) { watch(stop); }) {}

  /// Of the time from `begin` to `end`, what this process was late.
  Clock::duration between(Clock::time_point begin, Clock::time_point end) const {
    const std::lock_guard lock(mutex_);
    Clock::duration sum{};
    const auto add = [&](Clock::time_point from, Clock::time_point to) {
      from = std::max(from, begin);
      to = std::min(to, end);
      if (from < to) sum += to - from;
    };
    for (const Gap& gap : gaps_) add(gap.due, gap.woken);
    add(due_, end);  // overdue just now
    return sum;
  }

 private:
  struct Gap {
    Clock::time_point due, woken;
  };

  void watch(const std::stop_token& stop) {
    constexpr auto kTick = std::chrono::milliseconds(5);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      due_ = Clock::now() + kTick;
      over_.wait_until(lock, stop, due_, [] { return false; });
      const auto now = Clock::now();
      if (now > due_ + kTick / 5) gaps_.push_back({due_, now});
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable_any over_;  // until the thread is asked to stop
  Clock::time_point due_ = Clock::now();
  std::vector<Gap> gaps_;
  std::jthread thread_;  // last: starts when everything above exists, and is joined while it does
};

}  // namespace tutti::test
