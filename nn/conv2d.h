// Conv2d: a convolution over images (N, H, W, C), with PyTorch's parameters.
#pragma once

#include <tutti/nn/activation.h>
#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/random.h>

#include <cstdint>

namespace tutti::nn {

struct ConvOptions {
  tensor::Pair kernel = 3;
  tensor::Pair stride = 1;
  tensor::Pair padding = 0;  // zeros on each side
  tensor::Pair dilation = 1;
  std::int64_t groups = 1;  // inputs: a depthwise convolution
  bool bias = true;
};

class Conv2d : public Module, public TakesActivation {
 public:
  /// Parameters "weight" (outputs, inputs / groups, kernel height, width) and, if wanted, "bias" (outputs), float32,
  /// drawn in this order from `generator` by PyTorch's default rule (init.h). Throws std::invalid_argument for numbers
  /// that do not fit.
  Conv2d(std::int64_t inputs, std::int64_t outputs, const ConvOptions& options, tensor::Mt19937& generator);

  /// (N, H, W, inputs) -> (N, H', W', outputs). Throws std::invalid_argument naming this layer and the shape found.
  Variable forward(const Variable& input) override;
  Variable forward(const Variable& input, tensor::Activation activation) override;
  std::string describe() const override;

  Variable& weight() { return weight_; }
  Variable& bias() { return bias_; }  // undefined without one

 private:
  std::int64_t inputs_;
  std::int64_t outputs_;
  ConvOptions options_;
  Variable weight_;
  Variable bias_;
};

}  // namespace tutti::nn
