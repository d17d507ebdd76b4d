// Pooling layers over images (N, H, W, C). They hold no parameters.
#pragma once

#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/image_functions.h>

namespace tutti::nn {

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(const tensor::Pool2dOptions& options) : options_(options) {}
  Variable forward(const Variable& input) override { return tensor::max_pool2d(input, options_); }
  std::string describe() const override;

 private:
  tensor::Pool2dOptions options_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(const tensor::Pool2dOptions& options) : options_(options) {}
  Variable forward(const Variable& input) override { return tensor::avg_pool2d(input, options_); }
  std::string describe() const override;

 private:
  tensor::Pool2dOptions options_;
};

/// Means over equal shares of the image, `output` of them in each direction, whatever the image's size.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(tensor::Pair output) : output_(output) {}
  Variable forward(const Variable& input) override { return tensor::adaptive_avg_pool2d(input, output_); }
  std::string describe() const override;

 private:
  tensor::Pair output_;
};

}  // namespace tutti::nn
