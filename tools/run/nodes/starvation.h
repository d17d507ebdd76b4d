// PatientTimer: measures a silence in time in which this process itself could have listened.
//
// On a host that is overloaded, or suspended, a listener that has not run for two seconds knows nothing about the
// speaker. So each look counts no more than twice the time between two looks. Thread-safety: one thread.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti::tools {

class PatientTimer {
 public:
  using Clock = std::chrono::steady_clock;

  PatientTimer(Clock::duration between_looks, Clock::time_point now) : most_(2 * between_looks), last_look_(now) {}

  /// To be called at every look; `heard`: the other side has given a sign of life since the last one.
  void look(Clock::time_point now, bool heard) {
    silence_ = heard ? Clock::duration::zero() : silence_ + std::min<Clock::duration>(now - last_look_, most_);
    last_look_ = now;
  }

  Clock::duration silence() const { return silence_; }

 private:
  Clock::duration most_;
  Clock::time_point last_look_;
  Clock::duration silence_{};
};

}  // namespace tutti::tools
