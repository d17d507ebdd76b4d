// Losses. cross_entropy(logits, targets) and mse_loss(prediction, target) are tensor's own operations under nn's name.
#pragma once

#include <tutti/tensor/autograd/functions.h>

namespace tutti::nn {

using tensor::cross_entropy;
using tensor::mse_loss;
using tensor::Reduction;

/// Squared error between an autoencoder's output (N, pixels) and the images that went in, of any shape (N, ...) with as
/// many elements. Throws std::invalid_argument with both shapes when they do not fit.
tensor::Variable reconstruction_loss(const tensor::Variable& output, const tensor::Tensor& images,
                                     Reduction reduction = Reduction::Mean);

}  // namespace tutti::nn
