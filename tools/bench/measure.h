// Measuring one row: how long an operation takes, and whether its results are right.
//
// The time of one call is the longest that any rank was inside it. Before each timed call the buffers are set up anew,
// outside the timed part, and after it the result is compared. Calls of up to `barrier_above` bytes follow each other
// directly, as in a program that does many of them: a root that only sends runs ahead, and what is seen of a small
// broadcast is its rate, not its latency. Before larger calls all ranks meet in a barrier, because setting up and
// comparing takes ranks that share processors differently long. The number of calls is rank 0's, which broadcasts it.
//
// Data that nobody has written since the last call may still lie in the caches of those who received it then: whoever
// fetches it from the sender's own memory finds it there. `fresh` measures what a program sees that has just computed
// it.
//
// Thread-safety: measure() is collective; one thread a group, as ProcessGroup says.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/bench/operations.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tutti::tools::bench {

struct MeasureOptions {
  std::size_t warmup = 5;
  std::size_t iterations = 0;  // 0: as many as fill min_time
  std::chrono::nanoseconds min_time{std::chrono::milliseconds(300)};
  bool check = true;
  std::uint64_t seed = 1;
  bool registered = false;  // buffers by ProcessGroup::allocate
  bool fresh = false;       // the data is written anew before each call, outside the timed part
  std::size_t barrier_above = 32 * 1024;
};

struct TimesUs {
  double min = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
};

struct Measurement {
  std::size_t iterations = 0;
  TimesUs time;
  std::optional<std::uint64_t> wrong;  // elements, over all ranks and timed calls; empty when nothing was compared
};

/// Equal on all ranks. Throws what the operation throws, and std::runtime_error when memory does not suffice.
Measurement measure(comm::ProcessGroup& group, const Operation& operation, const Case& c,
                    const MeasureOptions& options);

/// Rank 0's value. Collective.
template <typename T>
T agreed(comm::ProcessGroup& group, T value) {
  group.broadcast(std::span<T>(&value, 1), 0);
  return value;
}

/// How many calls to time next, when `done` took `elapsed`; 0: enough. Never 0 before the first.
std::size_t next_batch(std::size_t done, std::chrono::nanoseconds elapsed, const MeasureOptions& options);

/// Nearest-rank percentiles; `times` is not empty.
TimesUs summarize(std::vector<double> times);

}  // namespace tutti::tools::bench
