// Initial values, drawn as PyTorch draws them: the same generator state gives the same bits.
#pragma once

#include <tutti/tensor/random.h>
#include <tutti/tensor/tensor.h>

#include <cstdint>

namespace tutti::nn {

/// Fills a contiguous float32 tensor, first element first, from the uniform distribution over [low, high), as
/// torch.Tensor.uniform_ does on the CPU. Throws std::invalid_argument for another type or a packed view's absence.
void uniform(tensor::Tensor& values, double low, double high, tensor::Mt19937& generator);

/// Fills a contiguous float32 tensor from the normal distribution as torch.Tensor.normal_ does on the CPU: the numbers
/// of one uniform draw, turned into normal ones in blocks of 16 by Box and Muller's method; the last block overlaps the
/// one before and is drawn again. The same generator state gives torch's values up to the last bits of log, cos and
/// sin. Fewer than 16 elements (which torch draws otherwise, in double) are the first ones of a block of 16.
void normal(tensor::Tensor& values, double mean, double deviation, tensor::Mt19937& generator);

enum class Fan { In, Out };
/// How many inputs an output of a weight (O, I, ...) has, or how many outputs an input goes to, as torch counts them:
/// I or O times the kernel's elements, groups or not. Throws std::invalid_argument for fewer than two dimensions.
std::int64_t fan_of(const tensor::Shape& weight, Fan fan);

inline constexpr double kReluGain = 1.4142135623730951;  // sqrt(2)

/// He's initialisation, torch's kaiming_normal_ and kaiming_uniform_: deviation gain / sqrt(fan).
/// Source: https://arxiv.org/abs/1502.01852
void kaiming_normal(tensor::Tensor& weight, Fan fan, tensor::Mt19937& generator, double gain = kReluGain);
void kaiming_uniform(tensor::Tensor& weight, Fan fan, tensor::Mt19937& generator, double gain = kReluGain);

/// Glorot's, torch's xavier_normal_ and xavier_uniform_: deviation gain sqrt(2 / (fan in + fan out)).
/// Source: https://proceedings.mlr.press/v9/glorot10a.html
void xavier_normal(tensor::Tensor& weight, tensor::Mt19937& generator, double gain = 1);
void xavier_uniform(tensor::Tensor& weight, tensor::Mt19937& generator, double gain = 1);

/// The bound that PyTorch's Linear and convolutions use for weight and bias: kaiming_uniform_ with a = sqrt(5), which
/// is 1 / sqrt(fan_in). Source: https://pytorch.org/docs/stable/nn.init.html
double default_bound(std::int64_t fan_in);

}  // namespace tutti::nn
