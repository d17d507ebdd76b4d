// What the options of a run ask of its ranks together: how gradients travel, who keeps the optimizer's state, over
// whose samples batch norm goes. Without state.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/data/dataset.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/options.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {

/// Throws UsageError naming options that do not go together.
void check_parallel_options(const TrainOptions& options);

/// Collective. Synchronises batch norm over `group` if that was asked for, or is needed for --reproducible, then by
/// exact sums, and joins linear layers where sums are exact (`samples`: of a step on all ranks). Throws UsageError for
/// a model that the options do not fit.
void prepare_model(const TrainOptions& options, nn::Module& model, comm::ProcessGroup& group, std::int64_t samples);

/// The input of a rank without samples in a step; undefined where such a rank need not run the model.
tensor::Tensor empty_input(const TrainOptions& options, const nn::Module& model, const ImageDataset& data);

/// What DataParallel is to do for these options: among other things whether gradients are exact sums
/// (data_parallel/gradient_exchange.h), which they are wherever that makes the number of ranks invisible, unless
/// --no-reproducible, and the model has no batch norm.
DataParallelOptions data_parallel_options(const TrainOptions& options, const nn::Module& model, int ranks);

/// As in update_rule.h, sharded over the ranks if that was asked for. Local.
std::unique_ptr<nn::Optimizer> make_update_rule(const TrainOptions& options, const nn::Module& model,
                                                std::int64_t steps_per_epoch, comm::ProcessGroup& group);

/// What a user may want to know about it when the run begins, one line each. Local.
std::vector<std::string> parallel_notes(const TrainOptions& options, const nn::Module& model, nn::Optimizer& optimizer,
                                        int ranks);

}  // namespace tutti::trainer
