// TrainingState: what a rank of an elastic run carries from one group of ranks to the next.
//
// The commit point of a step is right after the optimizer's update, on each rank by itself: until then nothing of the
// step counts. Parameters change in the update alone, which communicates nothing and so cannot be cut in half by a lost
// rank; what else a step changes (running statistics, sums of losses) is copied at each commit and taken back from the
// copy when the next step fails. So a survivor is always at the end of a whole step, at most one before the others: a
// rank that has its update has had the sum of all gradients, and every other rank was about to make the same one.
//
// Random streams are keyed by seed, epoch and sample, and samplers are functions of them: the position is all there is.
// Thread-safety: none; the training thread's.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/checkpoint_folder.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/report/run_report.h>
#include <tutti/trainer/step_info.h>
#include <tutti/trainer/task.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {

struct TrainingState {
  std::shared_ptr<const TaskData> data;  // read once
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<nn::Optimizer> optimizer;

  /// False: nothing is committed, this rank is new.
  bool begun = false;
  CheckpointPosition position;  // whole epochs, and steps of the next; the last step may be there before its epoch is
  std::vector<EpochReport> epochs;  // done
  LossSum sum;                      // of the `position.step` steps: this rank's own
  double seconds = 0;               // that these steps took
  NamedTensors buffers;             // copies, in the order of the model's

  /// This is how far the rank is. Allocates nothing in the middle of an epoch.
  void commit(CheckpointPosition now, const LossSum& sum_now, double seconds_now);
  /// After a failure: what the model holds is what was committed last; a rank that has not begun drops its model.
  void roll_back();
};

/// What came of a meeting.
struct Meeting {
  bool anybody = false;     // had begun; else all start from the beginning or a checkpoint
  int donor = 0;            // the rank whose state everybody has now
  std::vector<int> fresh;   // ranks that got it and had none
  std::vector<int> behind;  // ranks that got it and were at an earlier step
};

/// Collective; model and optimizer exist on every rank, and survivors have rolled back. Afterwards all ranks are where
/// the one is that had committed most (the first of them), with its bits of parameters, running statistics and
/// optimizer. What is received is applied only once it is complete, so that a failure in between costs nobody its
/// state. A survivor keeps its own sums. Nothing but positions travels when all are equally far.
Meeting meet(comm::ProcessGroup& group, TrainingState& state);

/// "epoch 2, step 40 of 469; state of rank 0, given to rank 3 (new)".
std::string meeting_text(const Meeting& meeting, const TrainingState& state, std::int64_t steps_per_epoch);

}  // namespace tutti::trainer
