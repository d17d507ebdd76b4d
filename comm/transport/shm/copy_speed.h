// CopySpeed, StreamChoice: whether what another rank will read is better written past the caches.
//
// That its lines come late (distance.h) is not enough. Some processors ask for many lines at once, so that a copy is
// fast though each line takes 200 ns: two cores of an Intel Xeon pass 13 GB/s through their caches, and 10 past them.
// Others do not, as those of different chiplets, with 2 GB/s. So copies through the caches are timed on both sides: the
// writer's into memory that the reader has used, and the reader's out of it. What is late and slow goes past the
// caches.
//
// What goes past the caches says nothing about them, and what was slow may have been so for another reason. So after
// many operations that went past them a few go through them again.
//
// Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/base/fast_clock.h>
#include <tutti/comm/transport/shm/majority.h>

#include <chrono>
#include <cstddef>

namespace tutti::comm {

class CopySpeed {
 public:
  static constexpr int kCopies = 16;                    // by which one kind is ahead when the other is not believed
  static constexpr std::size_t kTimedBytes = 8 * 1024;  // a shorter copy says nothing

  /// Does copy(), which copies so much through the caches.
  template <typename Copy>
  void time(std::size_t bytes, Copy copy) {
    if (bytes < kTimedBytes) return copy();
    const auto before = FastClock::now();
    copy();
    sample(bytes, FastClock::now() - before);
  }

  /// A copy of so much took so long. Half of what a copy through near caches makes is slow.
  void sample(std::size_t bytes, std::chrono::nanoseconds took) {
    slow_.sample(bytes < kSlowBytesPerNs * static_cast<std::size_t>(took.count()));
  }

  bool is_slow() const { return slow_.says_yes(); }

 private:
  static constexpr std::size_t kSlowBytesPerNs = 5;  // GB/s
  Majority<kCopies> slow_;
};

class StreamChoice {
 public:
  static constexpr int kStreamed = 2'000;  // operations past the caches, before some are tried through them

  /// Whether the next operation goes past the caches to a reader whose lines come late, where copies on one of the two
  /// sides are `slow`.
  bool choose(bool slow) {
    if (!slow || ++number_ == kStreamed + CopySpeed::kCopies) number_ = 0;
    return slow && number_ < kStreamed;
  }

 private:
  int number_ = 0;  // of operations to such a reader
};

}  // namespace tutti::comm
