#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/parameter_view.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

Updates gradients_of(std::span<tensor::Variable> parameters) {
  Updates updates;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].has_grad()) continue;
    updates.add(parameters[i].data().device(), view_of("clip_grad_norm", i, parameters[i]));
  }
  return updates;
}

}  // namespace

double sum_of_squared_gradients(std::span<tensor::Variable> parameters) {
  check_parameters("clip_grad_norm", parameters);
  double total = 0;
  gradients_of(parameters).for_each([&](const auto& kernels, auto device, auto gradients) {
    total += kernels.sum_of_squares(device, gradients);
  });
  return total;
}

void clip_gradients_of_norm(std::span<tensor::Variable> parameters, double norm, double max_norm) {
  if (!(max_norm > 0)) {
    throw std::invalid_argument("clip_grad_norm: max_norm is " + std::to_string(max_norm) + ", expected more than 0");
  }
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return;
  gradients_of(parameters).for_each([&](const auto& kernels, auto device, auto gradients) {
    kernels.scale_gradients(device, gradients, static_cast<float>(factor));
  });
}

double clip_grad_norm(std::span<tensor::Variable> parameters, double max_norm) {
  const double norm = std::sqrt(sum_of_squared_gradients(parameters));
  clip_gradients_of_norm(parameters, norm, max_norm);
  return norm;
}

}  // namespace tutti::nn
