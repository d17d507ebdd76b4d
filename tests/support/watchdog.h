// Watchdog: ends a test that hangs, and says what each rank was last doing.
//
//   Watchdog watchdog(std::chrono::seconds(60));
//   watchdog.doing(rank, "all_reduce of 1 MiB");   // from any thread
//
// Only time counts in which the process could run: one that was stopped for a minute does not hang.
// When the time has passed before the destructor runs, the last word of each rank is printed to stderr and the process
// aborts, so that ctest shows the place and a core can be taken. Thread-safety: doing() may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace tutti::test {

class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit = std::chrono::seconds(60))
      : limit_(limit), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

  /// Remembers what `rank` does from now on.
  void doing(int rank, std::string what) {
    const std::lock_guard lock(mutex_);
    last_[rank] = std::move(what);
  }

 private:
  void watch(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kSlice(100);
    std::unique_lock lock(mutex_);
    for (auto left = limit_ / kSlice; left > 0; --left) {
      over_.wait_for(lock, stop, kSlice, [] { return false; });
      if (stop.stop_requested()) return;
    }
    std::fprintf(stderr, "watchdog: the test still runs after %lld s\n", static_cast<long long>(limit_.count()));
    for (const auto& [rank, what] : last_) std::fprintf(stderr, "  rank %d: %s\n", rank, what.c_str());
    std::abort();
  }

  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any over_;  // until the thread is asked to stop
  std::map<int, std::string> last_;
  std::jthread thread_;  // last: starts when everything above exists, and is joined while it does
};

}  // namespace tutti::test
