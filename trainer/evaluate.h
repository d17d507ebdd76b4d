// Evaluation on the test set: every sample exactly once over all ranks, nothing padded, so that the result is the same
// for any number of ranks.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/trainer/metrics/confusion_matrix.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/report/progress.h>

namespace tutti::trainer {

struct Evaluation {
  double loss = 0;            // mean over the test samples of all ranks; 0 when there are none
  ConfusionMatrix confusion;  // of all ranks; all zero for Objective::Reconstruct
};

/// Collective; every rank gets the same result. `loader` runs over an EvaluationSampler of this rank. Leaves the model
/// in the mode (training or not) it was in. `progress`, which may be null, shows the batches of this rank.
Evaluation evaluate(comm::ProcessGroup& group, nn::Module& model, Objective objective, Loader& loader,
                    Progress* progress = nullptr);

}  // namespace tutti::trainer
