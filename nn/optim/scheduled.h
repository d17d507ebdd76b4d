// An optimizer that clips gradients and follows a schedule before each of its steps.
#pragma once

#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/schedule.h>

#include <optional>

namespace tutti::nn {

/// step(): clip_grad_norm to `clip_norm` if there is one, learning rate = schedule(steps so far), then the step of
/// `inner`, an optimizer over the same parameters. The number of steps is part of state() (as "schedule.step", beside
/// the inner optimizer's own), so that a checkpoint continues the schedule exactly. set_learning_rate has no effect.
/// Throws std::invalid_argument for a missing part or a clip_norm that is not above 0.
std::unique_ptr<Optimizer> make_scheduled(std::vector<tensor::Variable> parameters, std::unique_ptr<Optimizer> inner,
                                          Schedule schedule, std::optional<double> clip_norm = std::nullopt);

}  // namespace tutti::nn
