// Lab latency: how long a message takes. The text is in text.md; `tutti lab check latency` grades.

#include <tutti/tools/labs/lab_measure.h>

#include <cstddef>
#include <span>
#include <vector>

using tutti::labs::Line;
using tutti::labs::Ranks;
using tutti::labs::Sample;

// The time, in seconds, that a message of `bytes` bytes takes from rank 0 to rank 1 (one way). All ranks call this;
// what rank 0 returns counts. It measures `repetitions` times.
double message_seconds(Ranks& ranks, std::size_t bytes, int repetitions) {
  // Your code. ranks.seconds() reads the clock of this rank.
  (void)ranks, (void)bytes, (void)repetitions;
  return 0;
}

// The line alpha + beta * bytes through measured times: samples[i].bytes, samples[i].seconds.
Line fit(std::span<const Sample> samples) {
  // Your code.
  (void)samples;
  return {.alpha = 0, .beta = 0};
}

TUTTI_LAB_MESSAGE_SECONDS(message_seconds)
TUTTI_LAB_FIT(fit)
