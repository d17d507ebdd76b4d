// FetchChoice: whether the lines that a rank will write next are fetched while it waits for another one.
//
// Who has read them has them in its caches, from where each comes late: fetched meanwhile, they are there when they are
// to be written. But two processors may share a cache, or be threads of one core. Then lines come as fast as a copy
// writes, and who fetches them while the other one works only takes its time: two of an AMD EPYC at such a moment pass
// 32 KiB in 0.9 us, with fetching in 1.3. How late one line is does not tell the two apart; how fast a copy is whose
// lines have not been fetched does. So once in a while nothing is fetched, and the copy that follows is timed.
//
// Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/base/fast_clock.h>
#include <tutti/comm/transport/shm/majority.h>

#include <chrono>
#include <cstddef>

namespace tutti::comm {

class FetchChoice {
 public:
  static constexpr std::size_t kAlways = 2 * 1024;  // bytes that are fetched anyhow: a short wait suffices
  static constexpr int kTryEvery = 32;              // operations, of which one fetches nothing
  static constexpr int kTries = 4;                  // by which one kind is ahead when the other is not believed

  /// How many of the `bytes` that the next operation writes are to be fetched.
  std::size_t choose(std::size_t bytes) {
    if (bytes <= kAlways) return bytes;
    is_try_ = ++number_ % kTryEvery == 0;
    return is_try_ || quick_.says_yes() ? 0 : bytes;
  }

  /// Does copy(), which writes so many bytes where another rank has read.
  template <typename Copy>
  void time(std::size_t bytes, Copy copy) {
    if (!is_try_ || bytes < kAlways) return copy();
    is_try_ = false;
    const auto before = FastClock::now();
    copy();
    sample(bytes, FastClock::now() - before);
  }

  /// A copy of so much took so long, and nothing had been fetched.
  void sample(std::size_t bytes, std::chrono::nanoseconds took) {
    quick_.sample(bytes > kQuickBytesPerNs * static_cast<std::size_t>(took.count()));
  }

 private:
  // GB/s. Lines out of the caches of a core beside this one were written at 13 (Intel Xeon) to 24 (AMD EPYC), those of
  // a cache in common at 60.
  static constexpr std::size_t kQuickBytesPerNs = 32;

  unsigned number_ = 0;
  Majority<kTries> quick_;
  bool is_try_ = false;  // nothing was fetched for the operation that comes
};

}  // namespace tutti::comm
