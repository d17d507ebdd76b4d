#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/parameter_view.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

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

}  // namespace

double clip_grad_norm(std::span<tensor::Variable> parameters, double max_norm) {
  if (!(max_norm > 0)) {
    throw std::invalid_argument("clip_grad_norm: max_norm is " + std::to_string(max_norm) + ", expected more than 0");
  }
  check_parameters("clip_grad_norm", parameters);
  double total = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].has_grad()) continue;
    const ParameterView view = view_of("clip_grad_norm", i, parameters[i]);
    total += sum_of_squares(view.gradient, view.count);
  }
  const double norm = std::sqrt(total);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (tensor::Variable& parameter : parameters) {
    if (!parameter.has_grad()) continue;
    float* const gradient = parameter.grad().data<float>();
    const auto scale = static_cast<float>(factor);
    for (std::int64_t i = 0; i < parameter.grad().numel(); ++i) gradient[i] *= scale;
  }
  return norm;
}

}  // namespace tutti::nn
