#include <tutti/nn/conv2d.h>
#include <tutti/nn/init.h>

#include <stdexcept>

namespace tutti::nn {
namespace {

std::string to_string(tensor::Pair pair) {
  const std::string height = std::to_string(pair.height);
  return pair.height == pair.width ? height : height + "x" + std::to_string(pair.width);
}

bool at_least(tensor::Pair pair, std::int64_t least) { return pair.height >= least && pair.width >= least; }

Tensor draw(const tensor::Shape& shape, std::int64_t fan_in, tensor::Mt19937& generator) {
  const double bound = default_bound(fan_in);
  Tensor values = Tensor::empty(shape);
  uniform(values, -bound, bound, generator);
  return values;
}

}  // namespace

Conv2d::Conv2d(std::int64_t inputs, std::int64_t outputs, const ConvOptions& options, tensor::Mt19937& generator)
    : inputs_(inputs), outputs_(outputs), options_(options) {
  const bool fits = inputs >= 1 && outputs >= 1 && options.groups >= 1 && inputs % options.groups == 0 &&
                    outputs % options.groups == 0 && at_least(options.kernel, 1) && at_least(options.stride, 1) &&
                    at_least(options.padding, 0) && at_least(options.dilation, 1);
  if (!fits) {
    throw std::invalid_argument(describe() +
                                ": expected positive numbers, padding 0 or more, and inputs and outputs that are "
                                "multiples of groups");
  }
  const std::int64_t group_inputs = inputs / options.groups;
  const std::int64_t fan_in = group_inputs * options.kernel.height * options.kernel.width;
  weight_ = register_parameter(
      "weight", draw({outputs, group_inputs, options.kernel.height, options.kernel.width}, fan_in, generator));
  if (options.bias) bias_ = register_parameter("bias", draw({outputs}, fan_in, generator));
}

Variable Conv2d::forward(const Variable& input) { return forward(input, tensor::Activation::None); }

Variable Conv2d::forward(const Variable& input, tensor::Activation activation) {
  const tensor::Shape& shape = input.shape();
  if (shape.rank() != 4 || shape[3] != inputs_) {
    throw std::invalid_argument(describe() + ": the input has shape " + shape.to_string() + ", expected (N, H, W, " +
                                std::to_string(inputs_) + ")");
  }
  return tensor::conv2d(input, weight_, bias_,
                        {.stride = options_.stride,
                         .padding = options_.padding,
                         .dilation = options_.dilation,
                         .groups = options_.groups,
                         .activation = activation});
}

std::string Conv2d::describe() const {
  std::string text =
      "Conv2d(" + std::to_string(inputs_) + ", " + std::to_string(outputs_) + ", kernel " + to_string(options_.kernel);
  if (options_.stride != tensor::Pair(1)) text += ", stride " + to_string(options_.stride);
  if (options_.padding != tensor::Pair(0)) text += ", padding " + to_string(options_.padding);
  if (options_.dilation != tensor::Pair(1)) text += ", dilation " + to_string(options_.dilation);
  if (options_.groups != 1) text += ", groups " + std::to_string(options_.groups);
  return text + (options_.bias ? ")" : ", no bias)");
}

}  // namespace tutti::nn
