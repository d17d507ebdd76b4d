// What training steps of one rank were, for checkpoints and records. Values.
#pragma once

#include <cstdint>

namespace tutti::trainer {

/// The loss of some samples. Sums can be added over steps and ranks and do not depend on how batches were cut.
struct LossSum {
  double loss = 0;
  std::int64_t samples = 0;
};

struct StepInfo {
  int epoch = 1;                     // from 1
  std::int64_t step = 0;             // from 0, within the epoch
  std::int64_t steps_per_epoch = 0;  // the same on all ranks
  std::int64_t global_step = 0;      // from 0, over the whole run; what a resumed run did before counts
  double loss = 0;                   // mean over this rank's samples; 0 when it had none
  double learning_rate = 0;          // that the update used
  std::int64_t samples = 0;          // this rank's
  double seconds = 0;                // this rank's time for the step
  double wait_seconds = 0;           // of that, after its own backward: waiting for gradients of others
  bool checkpoint_asked = false;     // by any rank; equal on all ranks
  bool stop_asked = false;           // by any rank; equal on all ranks
  bool generation_asked = false;     // to leave the group for the next one; equal on all ranks

  /// What the record of a step holds (report/step_records.h), in its order.
  static void fields(auto& self, const auto& use) {
    use("epoch", self.epoch);
    use("step", self.step);
    use("global_step", self.global_step);
    use("loss", self.loss);
    use("learning_rate", self.learning_rate);
    use("samples", self.samples);
    use("seconds", self.seconds);
    use("wait_seconds", self.wait_seconds);
  }
};

}  // namespace tutti::trainer
