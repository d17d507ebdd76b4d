// Objective: what a model is trained towards. Labels (classification, cross entropy) or its own input (autoencoder,
// MSE). Pure functions.
#pragma once

#include <tutti/tensor/autograd/functions.h>
#include <tutti/trainer/data/loader.h>

#include <string_view>

namespace tutti::trainer {

enum class Objective { Classify, Reconstruct };

/// What the model of that name is for.
Objective objective_of(std::string_view model);

/// Mean over the batch's samples (of MSE: over their elements too) -> (). label_smoothing is for cross entropy.
tensor::Variable loss_of(Objective objective, const tensor::Variable& output, const Batch& batch,
                         double label_smoothing = 0);

}  // namespace tutti::trainer
