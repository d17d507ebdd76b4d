#include <tutti/nn/optim/parameter_view.h>

#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::Device;
using tensor::DType;
using tensor::Tensor;
using tensor::Variable;

bool usable(const Tensor& t) {
  return t.defined() && t.dtype() == DType::Float32 && t.device().kind == Device::Kind::Cpu && t.is_contiguous();
}

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
                                  ", expected contiguous float32 on the CPU");
    }
  }
}

void check_not_negative(std::string_view optimizer, std::string_view option, double value) {
  if (!(value >= 0)) {
    throw std::invalid_argument(std::string(optimizer) + ": " + std::string(option) + " is " + std::to_string(value) +
                                ", expected 0 or more");
  }
}

ParameterView view_of(std::string_view optimizer, std::size_t index, Variable& parameter) {
  const Tensor& gradient = parameter.grad();
  if (!usable(gradient) || gradient.shape() != parameter.shape() || gradient.device() != parameter.data().device()) {
    throw std::invalid_argument(std::string(optimizer) + ": the gradient of parameter " + std::to_string(index) +
                                " is " + describe(gradient) + ", but the parameter is " + describe(parameter.data()));
  }
  return {parameter.data().data<float>(), gradient.data<float>(), gradient.numel()};
}

std::vector<Tensor> zeros_like(std::span<const Variable> parameters) {
  std::vector<Tensor> zeros;
  zeros.reserve(parameters.size());
  for (const Variable& parameter : parameters) {
    zeros.push_back(Tensor::zeros(parameter.shape(), DType::Float32, parameter.data().device()));
  }
  return zeros;
}

}  // namespace tutti::nn
