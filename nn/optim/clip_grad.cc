#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/in_parts.h>
#include <tutti/nn/optim/parameter_view.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::nn {
namespace {

constexpr std::int64_t kBlock = 1 << 15;

// Eight sums side by side, which the compiler keeps in a register: one chain of additions would be eight times slower.
double sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return total;
}

// Block by block on all threads; the blocks' sums are added in their order, so that threads change no bit.
double sum_of_squares_in_blocks(const float* values, std::int64_t count, std::vector<double>& sums) {
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  sums.resize(static_cast<std::size_t>(blocks));
  tensor::parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kBlock;
      sums[static_cast<std::size_t>(block)] = sum_of_squares(values + first, std::min(kBlock, count - first));
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

double sum_of_squared_gradients(std::span<tensor::Variable> parameters) {
  check_parameters("clip_grad_norm", parameters);
  double total = 0;
  std::vector<double> sums;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].has_grad()) continue;
    const ParameterView view = view_of("clip_grad_norm", i, parameters[i]);
    total += sum_of_squares_in_blocks(view.gradient, view.count, sums);
  }
  return total;
}

void clip_gradients_of_norm(std::span<tensor::Variable> parameters, double norm, double max_norm) {
  if (!(max_norm > 0)) {
    throw std::invalid_argument("clip_grad_norm: max_norm is " + std::to_string(max_norm) + ", expected more than 0");
  }
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return;
  const auto scale = static_cast<float>(factor);
  for (tensor::Variable& parameter : parameters) {
    if (!parameter.has_grad()) continue;
    float* const gradient = parameter.grad().data<float>();
    in_parts(parameter.grad().numel(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) gradient[i] *= scale;
    });
  }
}

double clip_grad_norm(std::span<tensor::Variable> parameters, double max_norm) {
  const double norm = std::sqrt(sum_of_squared_gradients(parameters));
  clip_gradients_of_norm(parameters, norm, max_norm);
  return norm;
}

}  // namespace tutti::nn
