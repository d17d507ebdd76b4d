#include <tutti/nn/optim/parameter_view.h>

#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::Device;
using tensor::DType;
using tensor::Tensor;
using tensor::Variable;

bool usable(const Tensor& t) { return t.defined() && t.dtype() == DType::Float32 && t.is_contiguous(); }

std::string describe(const Tensor& t) {
  if (!t.defined()) {
    return "undefined";
  }
  return std::string(t.is_contiguous() ? "" : "a strided view of ") + std::string(tensor::name(t.dtype())) + " " +
         t.shape().to_string() + " on " + tensor::name(t.device());
}

}  // namespace

void check_parameters(std::string_view optimizer, std::span<const Variable> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool defined = parameters[i].defined();
    if (!defined || !usable(parameters[i].data())) {
      throw std::invalid_argument(std::string(optimizer) + ": parameter " + std::to_string(i) + " is " +
                                  (defined ? describe(parameters[i].data()) : "undefined") +
                                  ", expected contiguous float32");
    }
  }
}

void check_not_negative(std::string_view optimizer, std::string_view option, double value) {
  if (!(value >= 0)) {
    throw std::invalid_argument(std::string(optimizer) + ": " + std::string(option) + " is " + std::to_string(value) +
                                ", expected 0 or more");
  }
}

tensor::UpdatedParameter view_of(std::string_view optimizer, std::size_t index, Variable& parameter) {
  const Tensor& gradient = parameter.grad();
  if (!usable(gradient) || gradient.shape() != parameter.shape() || gradient.device() != parameter.data().device()) {
    throw std::invalid_argument(std::string(optimizer) + ": the gradient of parameter " + std::to_string(index) +
                                " is " + describe(gradient) + ", but the parameter is " + describe(parameter.data()));
  }
  return {.values = floats_of(parameter.data()), .gradient = floats_of(parameter.grad()), .count = gradient.numel()};
}

void Updates::add(Device device, const tensor::UpdatedParameter& parameter) {
  for (auto& [known, parameters] : by_device_) {
    if (known == device) return parameters.push_back(parameter);
  }
  by_device_.emplace_back(device, std::vector{parameter});
}

void Updates::for_each(const std::function<void(const tensor::KernelTable&, Device,
                                                std::span<const tensor::UpdatedParameter>)>& each) const {
  for (const auto& [device, parameters] : by_device_) each(tensor::kernels(device), device, parameters);
}

float* floats_of(Tensor& state) { return static_cast<float*>(state.raw()); }

std::vector<Tensor> zeros_like(std::span<const Variable> parameters) {
  std::vector<Tensor> zeros;
  zeros.reserve(parameters.size());
  for (const Variable& parameter : parameters) {
    zeros.push_back(Tensor::zeros(parameter.shape(), DType::Float32, parameter.data().device()));
  }
  return zeros;
}

}  // namespace tutti::nn
