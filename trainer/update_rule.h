// The update rule of a run: the optimizer that its options ask for, with the learning-rate schedule and the clipping
// around it. Schedules count optimizer steps; options count epochs, which are translated here. Pure functions.
#pragma once

#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/schedule.h>
#include <tutti/trainer/options.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tutti::trainer {

/// Throws UsageError naming options that do not go together.
void check_update_rule(const TrainOptions& options);

/// The learning rate of every step. A warm-up scales what the schedule says, which begins at step 0 all the same.
nn::Schedule make_schedule(const TrainOptions& options, std::int64_t steps_per_epoch);

/// For all parameters of `model`. `options` went through checked().
std::unique_ptr<nn::Optimizer> make_update_rule(const TrainOptions& options, const nn::Module& model,
                                                std::int64_t steps_per_epoch);

/// For `parameters`, clipping to `clip_norm`, which need not be the options'.
std::unique_ptr<nn::Optimizer> make_update_rule(const TrainOptions& options, std::vector<tensor::Variable> parameters,
                                                std::int64_t steps_per_epoch, std::optional<double> clip_norm);

}  // namespace tutti::trainer
