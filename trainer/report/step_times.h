// Who is slow: each rank's own time for a step, which is what it did not spend waiting for others.
//
// All ranks' steps take equally long, since they exchange gradients; the one that the others wait for is the one that
// waits least itself. Pure functions over records.
#pragma once

#include <tutti/trainer/report/run_data.h>

#include <cstdint>
#include <vector>

namespace tutti::trainer {

struct RankTimes {
  int rank = 0;
  std::int64_t steps = 0;
  double seconds = 0;       // mean time of a step
  double wait_seconds = 0;  // of that, mean
  double own_median = 0;    // of seconds - wait_seconds
  double own_usual = 0;     // its mean without the slowest hundredth of the steps
  double last_share = 0;    // of the steps that all ranks have: where it had the longest own time
  double slowdown = 1;      // own_usual / the median of the other ranks'; 1 with a single rank
  bool is_straggler = false;
};

/// A step in which one rank took much longer than it usually does.
struct SlowStep {
  int rank = 0;
  StepRecord record{};
  double usual_seconds = 0;  // its own median
};

struct StepTimes {
  std::vector<RankTimes> ranks;
  std::vector<SlowStep> slow_steps;  // the worst few, worst first
};

/// A rank is a straggler from this slowdown on.
inline constexpr double kStragglerSlowdown = 1.15;

/// The first step of each rank, which warms up, is left out where there are ten or more.
StepTimes step_times(const std::vector<RankSteps>& steps);

}  // namespace tutti::trainer
