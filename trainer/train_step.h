// One training step, and an epoch of them. This is the inner loop; everything else in trainer/ prepares or reports.
#pragma once

#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/device/device_feed.h>
#include <tutti/trainer/device/step_graphs.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/report/progress.h>
#include <tutti/trainer/step_info.h>

#include <cstdint>
#include <functional>

namespace tutti::trainer {

/// What a model is trained with, besides its batches.
struct Training {
  DataParallel& parallel;
  nn::Optimizer& optimizer;
  Objective objective = Objective::Classify;
  double label_smoothing = 0;
  std::int64_t micro_batch = 0;  // samples that are computed on together, where a batch has more; 0: all
  int ranks = 1;
  /// Called in each step before the gradients leave: the last moment to ask the other ranks for something.
  std::function<void()> before_exchange{};
  /// An input of no samples, for a model whose forward and backward are collective (shared_batch.h): a rank without
  /// samples runs them over it. Undefined for other models.
  tensor::Tensor empty_input{};
  StepGraphs* graphs = nullptr;  // of a GPU; may be null
};

/// Forward, backward, exchange, update. `batch` is this rank's part of the step's `global_samples`, and may be empty.
/// What layers draw at random (nn/sample_keys.h) is keyed by the batch's samples. Collective. Adds the loss before the
/// update to `sum`, and returns its mean over the batch; 0 for an empty one.
double train_step(const Training& training, DeviceFeed& feed, const Batch& batch, std::int64_t global_samples,
                  LossSum& sum);

/// Where an epoch's steps are taken from, and where they begin.
struct EpochSteps {
  DeviceFeed& feed;        // of this rank's loader, which has begun the epoch
  int epoch = 1;           // from 1
  std::int64_t first = 0;  // step to begin with
  std::int64_t count = 0;  // steps of the whole epoch, the same on all ranks
  /// Samples of step k over all ranks; the same on all ranks.
  std::function<std::int64_t(std::int64_t)> global_samples{};
};

/// Called after each step on every rank; false ends the epoch there, and has to be so on every rank at the same step.
using AfterStep = std::function<bool(const StepInfo&)>;

/// The epoch's steps from the first one asked for. Collective: a rank whose loader is empty goes on without samples.
/// Adds to `sum`, this rank's, which after_step may look at.
void train_epoch(const Training& training, const EpochSteps& steps, Progress& progress, const AfterStep& after_step,
                 LossSum& sum);

/// Collective. The sum of all ranks' sums, in the order of ranks.
LossSum sum_over_ranks(comm::ProcessGroup& group, const LossSum& mine);

}  // namespace tutti::trainer
