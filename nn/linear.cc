#include <tutti/nn/init.h>
#include <tutti/nn/linear.h>

#include <stdexcept>

namespace tutti::nn {
namespace {

Tensor draw(const tensor::Shape& shape, std::int64_t fan_in, tensor::Mt19937& generator) {
  const double bound = default_bound(fan_in);
  Tensor values = Tensor::empty(shape);
  uniform(values, -bound, bound, generator);
  return values;
}

std::string describe_linear(std::int64_t inputs, std::int64_t outputs) {
  return "Linear(" + std::to_string(inputs) + ", " + std::to_string(outputs) + ")";
}

}  // namespace

Linear::Linear(std::int64_t inputs, std::int64_t outputs, tensor::Mt19937& generator)
    : inputs_(inputs), outputs_(outputs) {
  if (inputs < 1 || outputs < 1) {
    throw std::invalid_argument(describe_linear(inputs, outputs) + ": expected positive numbers of inputs and outputs");
  }
  weight_ = register_parameter("weight", draw({outputs, inputs}, inputs, generator));
  bias_ = register_parameter("bias", draw({outputs}, inputs, generator));
}

Variable Linear::forward(const Variable& input) { return forward(input, tensor::Activation::None); }

Variable Linear::forward(const Variable& input, tensor::Activation activation) {
  const tensor::Shape& shape = input.shape();
  if (shape.rank() != 2 || shape[1] != inputs_) {
    throw std::invalid_argument(describe() + ": the input has shape " + shape.to_string() + ", expected (N, " +
                                std::to_string(inputs_) + ")");
  }
  return tensor::linear(input, weight_, bias_, activation, holders_);
}

std::string Linear::describe() const { return describe_linear(inputs_, outputs_); }

}  // namespace tutti::nn
