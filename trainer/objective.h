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

/// The sum over the batch's samples -> (), in float64 on the CPU; of MSE over their elements, too. label_smoothing is
/// for cross entropy.
tensor::Variable loss_of(Objective objective, const tensor::Variable& output, const Batch& batch,
                         double label_smoothing = 0);

/// Terms of that sum for each sample: what it is divided by, besides samples, to be a mean.
std::int64_t loss_terms(Objective objective, const Batch& batch);

}  // namespace tutti::trainer
