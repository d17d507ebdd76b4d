// FastClock: the time of std::chrono::steady_clock at less than half of its price, for what every operation reads.
//
// On x86-64 with an invariant time-stamp counter each thread goes on from its last look at the steady clock by that
// counter, whose rate it measures, and looks again every 20 ms; the two differ by a few microseconds at most. Elsewhere
// this is the steady clock. Never goes back within a thread. Thread-safety: any thread. Source: Intel, "64 and IA-32
// Architectures Software Developer's Manual" volume 3B, 18.17 (time-stamp counter), and AMD's volume 2, 13.2.4.
#pragma once

#include <chrono>

namespace tutti::comm {

struct FastClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;  // the same, so that they can be compared
  static constexpr bool is_steady = true;

  static time_point now();
};

}  // namespace tutti::comm
