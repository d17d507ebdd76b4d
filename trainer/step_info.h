// StepInfo: what is known when a training step has ended, for whoever records, saves or stops.
#pragma once

#include <cstdint>

namespace tutti::trainer {

struct StepInfo {
  int epoch = 0;                     // from 1
  std::int64_t step = 0;             // from 0 within the epoch
  std::int64_t steps_per_epoch = 0;  // of every epoch
  std::int64_t global_step = 0;      // from 0 over the whole run, resumed parts counted
  double loss = 0;                   // mean over this rank's samples
  std::int64_t samples = 0;          // this rank's
  double learning_rate = 0;
  double seconds = 0;       // this rank's wall time of the step
  double wait_seconds = 0;  // of that: waiting for communication after backward was done
  bool checkpoint_asked = false;
  bool stop_asked = false;  // agreed by all ranks
};

}  // namespace tutti::trainer
