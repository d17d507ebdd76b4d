// One training step, and an epoch of them. This is the inner loop; everything else in trainer/ prepares or reports.
#pragma once

#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/loss_sum.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/report/progress.h>

namespace tutti::trainer {

/// Forward, backward, exchange, update. `share` = this rank's part of the step's samples over all ranks. What layers
/// draw at random (nn/sample_keys.h) is keyed by the batch's samples. Collective. Returns the batch's mean loss before
/// the update.
double train_step(DataParallel& parallel, nn::Optimizer& optimizer, Objective objective, const Batch& batch,
                  double share, double label_smoothing = 0);

/// All batches of the loader's current epoch. Collective: every rank has equally many batches of equal size, which the
/// sampler guarantees. Returns this rank's sums.
LossSum train_batches(DataParallel& parallel, nn::Optimizer& optimizer, Objective objective, Loader& loader,
                      int world_size, Progress& progress, double label_smoothing = 0);

}  // namespace tutti::trainer
