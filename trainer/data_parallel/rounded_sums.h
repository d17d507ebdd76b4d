// Exact sums in float64 buckets, and the float32 gradients that they become; what exchanges of exact sums share
// (exact_exchange.h). Thread-safety: pure functions on the caller's tensors.
#pragma once

#include <tutti/tensor/tensor.h>

namespace tutti::trainer {

/// Of the memory of a bucket of `dtype`: float64 for float32, of anything else the same.
tensor::DType type_of_sums(tensor::DType dtype);

/// `rounded` (float32) becomes the sums (float64), as far as both go. Zero has no sign afterwards: whether it had one
/// depends on who had no term to add.
void round_sums(const tensor::Tensor& sums, tensor::Tensor& rounded);

}  // namespace tutti::trainer
