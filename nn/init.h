// Initial values, drawn as PyTorch draws them: the same generator state gives the same bits.
#pragma once

#include <tutti/tensor/random.h>
#include <tutti/tensor/tensor.h>

#include <cstdint>

namespace tutti::nn {

/// Fills a contiguous float32 tensor, first element first, from the uniform distribution over [low, high), as
/// torch.Tensor.uniform_ does on the CPU. Throws std::invalid_argument for another type or a packed view's absence.
void uniform(tensor::Tensor& values, double low, double high, tensor::Mt19937& generator);

/// The bound that PyTorch's Linear and convolutions use for weight and bias: kaiming_uniform_ with a = sqrt(5), which
/// is 1 / sqrt(fan_in). Source: https://pytorch.org/docs/stable/nn.init.html
double default_bound(std::int64_t fan_in);

}  // namespace tutti::nn
