// Gradient clipping by the norm of all gradients together.
#pragma once

#include <tutti/tensor/autograd/variable.h>

#include <span>

namespace tutti::nn {

/// Multiplies all gradients by max_norm / norm when their Euclidean norm, taken as one long vector, is above max_norm.
/// Returns the norm before that. torch.nn.utils.clip_grad_norm_, the 1e-6 in the divisor included; parameters without a
/// gradient do not count, a norm that is not finite makes all gradients NaN or zero as there. Data parallel: call it
/// when gradients have been summed over ranks; the sum runs in double in a fixed order, so that equal gradients are
/// clipped to equal bits. Throws std::invalid_argument for a max_norm that is not above 0 and for a parameter that is
/// not contiguous float32. On a GPU it waits for the gradients. Source:
/// https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
double clip_grad_norm(std::span<tensor::Variable> parameters, double max_norm);

/// The two halves of it, for gradients of which each process has a part: sums of squares are added up in between.
double sum_of_squared_gradients(std::span<tensor::Variable> parameters);
void clip_gradients_of_norm(std::span<tensor::Variable> parameters, double norm, double max_norm);

}  // namespace tutti::nn
