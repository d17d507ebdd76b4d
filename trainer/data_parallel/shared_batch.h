// Layers that work on the batch of all ranks instead of each rank's own part. Their sub-groups, which meet no gradients
// on their way, belong to the layers until nn::leave_shared_batch: collective, but while an exception is under way.
//
// Batch norm then computes what one rank with the whole batch would, also where ranks have different numbers of samples
// or none, and running statistics are the same bits on all ranks. It costs two all_gathers of two doubles per channel
// (exact sums: of four and two) for each layer and step, which nothing hides. Source: torch.nn.SyncBatchNorm,
// https://pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <cstdint>
#include <vector>

namespace tutti::trainer {

/// Collective. From now on every BatchNorm2d of `model` takes its training statistics over all ranks of `group`;
/// forward and backward in training mode are collective then, and a rank without samples runs them over an empty batch.
/// `exact`: by exact sums, so that the same samples give the same bits on any number of ranks; on the CPU only. Returns
/// the number of layers. What was shared before ends; a world of one without `exact` shares nothing.
int synchronise_batch_norm(nn::Module& model, comm::ProcessGroup& group, bool exact = false);

/// Collective. Large linear layers (nn::large_linear_layers; `samples`: a step's on all ranks) take their gradients
/// over all ranks in one order of samples, so that they have the same bits on any number of ranks, in float32: ranks
/// gather inputs and gradients, and each computes some rows of the weight's gradient. Backward is collective then, as
/// batch norm's is, of micro-batches of `part` samples on each rank; 0: of all at once.
void join_linear_layers(nn::Module& model, comm::ProcessGroup& group, std::int64_t samples, std::int64_t part);

/// The model's parameters in registration order, for plan_buckets.
std::vector<ParameterSize> parameter_sizes(const nn::Module& model);

}  // namespace tutti::trainer
