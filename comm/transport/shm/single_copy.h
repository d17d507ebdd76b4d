// SingleCopyChoice: whether something long between two ranks goes through the memory they share, or in a single copy.
//
// Through shared memory it is copied twice, by both sides at the same time. Where the kernel lets one process read
// another one's memory (Neighbours::read_memory), its reader can fetch it where it lies instead. Which is quicker
// depends on the processor, on the length, and on who has touched the data last: what its writer has just computed
// comes out of that one's caches, what is the same as in the last call may lie in the reader's. So both ways are tried,
// a few operations each, and the quicker one is kept for many; lengths are told apart by their powers of two.
//
// Thread-safety: one thread at a time. Source: Chai, Lai, Jin and Panda, "Designing an Efficient Kernel-level and
// User-level Hybrid Approach for MPI Intra-node Communication on Multi-core Systems" (ICPP 2008), on what either way is
// good for.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tutti::comm {

enum class SingleCopy { Auto, Never, Always };

/// TUTTI_SINGLE_COPY: "auto" (also if it is not set), "never" or "always". Throws InvalidArgument for anything else.
SingleCopy single_copy_setting();

class SingleCopyChoice {
 public:
  static constexpr std::size_t kLeastBytes = 64 * 1024;  // what is shorter goes through shared memory
  static constexpr int kTried = 4;                       // operations each way, whose best counts
  static constexpr int kKept = 500;                      // the quicker way, before both are tried again

  explicit SingleCopyChoice(SingleCopy setting) : setting_(setting) {}

  /// Whether the next operation with so many bytes is to be a single copy.
  bool choose(std::size_t bytes) {
    if (bytes < kLeastBytes || setting_ != SingleCopy::Auto)
      return bytes >= kLeastBytes && setting_ == SingleCopy::Always;
    return kind(bytes).next();
  }

  /// An operation for which choose() said `single` took so long, from when both sides had come.
  void took(std::size_t bytes, bool single, std::chrono::nanoseconds time) {
    if (bytes < kLeastBytes || setting_ != SingleCopy::Auto) return;
    float& best = kind(bytes).best[single ? 1 : 0];
    best = std::min(best, static_cast<float>(time.count()) / static_cast<float>(bytes));
  }

  /// The other side's memory cannot be read: choose() says no from now on.
  void refuse() { setting_ = SingleCopy::Never; }

 private:
  static constexpr float kNotTried = std::numeric_limits<float>::max();
  static constexpr float kClearly = 0.95F;  // of the time: a way that is not clearly quicker replaces no other

  struct Kind {
    int number = 0;  // of operations since both ways were compared the last time
    bool single = false;
    std::array<float, 2> best{kNotTried, kNotTried};  // ns per byte, by way

    bool next() {
      if (number == 2 * kTried && best[single ? 0 : 1] < kClearly * best[single ? 1 : 0]) single = !single;
      if (number == 2 * kTried + kKept) {
        number = 0;
        best = {kNotTried, kNotTried};
      }
      const bool other = number >= kTried && number < 2 * kTried;
      ++number;
      return single != other;
    }
  };

  Kind& kind(std::size_t bytes) {
    const auto power = static_cast<std::size_t>(std::bit_width(bytes / kLeastBytes) - 1);
    return kinds_[std::min(power, kinds_.size() - 1)];
  }

  SingleCopy setting_;
  std::array<Kind, 16> kinds_;  // of 64 KiB, 128 KiB, ...
};

}  // namespace tutti::comm
