// A point in time by which a wait must end. Every wait in comm takes one; nothing waits for ever. Caller: callbacks
// that a running operation makes to the call that started it, on the thread that runs the operation.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti::comm {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point at) : at_(at) {}

  static Deadline after(std::chrono::milliseconds duration) { return Deadline(Clock::now() + duration); }

  Clock::time_point time_point() const { return at_; }
  bool expired() const { return Clock::now() >= at_; }

  /// Time left, rounded up so that a positive remainder never reads as zero; never negative.
  std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }

  Deadline earlier_of(Deadline other) const { return Deadline(std::min(at_, other.at_)); }

 private:
  Clock::time_point at_;
};

/// Seconds since then.
inline double elapsed_seconds(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

class Caller {
 public:
  /// Until when the operation may wait. The time counts from the first call: an operation that never waits need not
  /// read the clock.
  virtual Deadline deadline() = 0;

  /// The peers have this rank's announcement: whatever had to precede it, and may be done now, no longer delays them.
  virtual void is_announced() {}

 protected:
  ~Caller() = default;
};

}  // namespace tutti::comm
