// EfficientNet-B0: Tan and Le, https://arxiv.org/abs/1905.11946, as torchvision builds it:
// https://github.com/pytorch/vision/blob/main/torchvision/models/efficientnet.py
#include <tutti/nn/activation.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/init.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/families.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tutti::nn {
namespace {

using tensor::Mt19937;
using Modules = std::vector<std::shared_ptr<Module>>;

struct Stage {
  std::int64_t expansion;
  std::int64_t kernel;
  std::int64_t stride;  // of the first block
  std::int64_t inputs;
  std::int64_t outputs;
  int blocks;
};

constexpr std::array<Stage, 7> kStages = {{{1, 3, 1, 32, 16, 1},
                                           {6, 3, 2, 16, 24, 2},
                                           {6, 5, 2, 24, 40, 2},
                                           {6, 3, 2, 40, 80, 3},
                                           {6, 5, 1, 80, 112, 3},
                                           {6, 5, 2, 112, 192, 4},
                                           {6, 3, 1, 192, 320, 1}}};
constexpr std::int64_t kFirst = 32;
constexpr std::int64_t kLast = 1280;
constexpr double kDropout = 0.2;
constexpr double kStochasticDepth = 0.2;  // of the last block; earlier ones less, in proportion

// "0" the convolution, "1" its batch norm, "2" SiLU.
std::shared_ptr<Module> conv_norm(std::int64_t inputs, std::int64_t outputs, const ConvOptions& shape, bool silu,
                                  Mt19937& generator) {
  ConvOptions options = shape;
  options.padding = (shape.kernel.height - 1) / 2;
  options.bias = false;
  Modules modules{std::make_shared<Conv2d>(inputs, outputs, options, generator),
                  std::make_shared<BatchNorm2d>(outputs)};
  if (silu) modules.push_back(std::make_shared<SiLU>());
  return std::make_shared<Sequential>(modules);
}

// Squeeze and excitation: each channel of a sample by a factor that depends on the means of all its channels.
class SqueezeExcitation : public Module {
 public:
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, Mt19937& generator) : channels_(channels) {
    fc1_ = register_module("fc1", std::make_shared<Conv2d>(channels, squeezed, ConvOptions{.kernel = 1}, generator));
    fc2_ = register_module("fc2", std::make_shared<Conv2d>(squeezed, channels, ConvOptions{.kernel = 1}, generator));
  }

  Variable forward(const Variable& input) override {
    const Variable squeezed = tensor::silu(fc1_->forward(tensor::adaptive_avg_pool2d(input, 1)));
    const Variable factors = tensor::sigmoid(fc2_->forward(squeezed));
    return tensor::mul_channels(input, tensor::reshape(factors, {-1, channels_}));
  }

  std::string describe() const override { return "SqueezeExcitation()"; }

 private:
  std::int64_t channels_;
  std::shared_ptr<Conv2d> fc1_, fc2_;
};

// Widen, convolve each channel by itself, weigh the channels, narrow; plus the input where shapes allow.
class MBConv : public Module {
 public:
  /// `inputs` and `stride` are the block's own; `number` counts the blocks of the network.
  MBConv(const Stage& stage, std::int64_t inputs, std::int64_t stride, double drop, std::uint64_t number,
         Mt19937& generator)
      : residual_(stride == 1 && inputs == stage.outputs), depth_(drop, number) {
    const std::int64_t width = inputs * stage.expansion;
    Modules modules;
    if (width != inputs) modules.push_back(conv_norm(inputs, width, {.kernel = 1}, true, generator));
    modules.push_back(
        conv_norm(width, width, {.kernel = stage.kernel, .stride = stride, .groups = width}, true, generator));
    modules.push_back(std::make_shared<SqueezeExcitation>(width, std::max<std::int64_t>(1, inputs / 4), generator));
    modules.push_back(conv_norm(width, stage.outputs, {.kernel = 1}, false, generator));
    block_ = register_module("block", std::make_shared<Sequential>(modules));
  }

  Variable forward(const Variable& input) override {
    const Variable x = block_->forward(input);
    if (!residual_) return x;
    depth_.train(is_training());  // not a registered child: it has no parameters, and no name in torchvision's files
    return tensor::add(depth_.forward(x), input);
  }

  std::string describe() const override { return "MBConv()"; }

 private:
  bool residual_;
  StochasticDepth depth_;
  std::shared_ptr<Sequential> block_;
};

std::shared_ptr<Module> make_features(Mt19937& generator) {
  int blocks = 0;
  for (const Stage& stage : kStages) blocks += stage.blocks;
  Modules features{conv_norm(3, kFirst, {.kernel = 3, .stride = 2}, true, generator)};
  std::uint64_t number = 0;
  for (const Stage& stage : kStages) {
    Modules modules;
    for (int i = 0; i < stage.blocks; ++i, ++number) {
      const double drop = kStochasticDepth * static_cast<double>(number) / blocks;
      modules.push_back(std::make_shared<MBConv>(stage, i == 0 ? stage.inputs : stage.outputs,
                                                 i == 0 ? stage.stride : 1, drop, number, generator));
    }
    features.push_back(std::make_shared<Sequential>(modules));
  }
  features.push_back(conv_norm(kStages.back().outputs, kLast, {.kernel = 1}, true, generator));
  return std::make_shared<Sequential>(features);
}

class EfficientNet : public Module {
 public:
  EfficientNet(std::int64_t classes, Mt19937& generator) {
    features_ = register_module("features", make_features(generator));
    constexpr std::uint64_t kDropoutLayer = 1000;  // blocks count from 0
    classifier_ = register_module(
        "classifier", std::make_shared<Sequential>(Modules{std::make_shared<Dropout>(kDropout, kDropoutLayer),
                                                           std::make_shared<Linear>(kLast, classes, generator)}));
    initialise(classes, generator);
  }

  // (N, H, W, 3) -> (N, H/32, W/32, 1280) -> (N, classes)
  Variable forward(const Variable& input) override {
    return classifier_->forward(flatten_.forward(mean_.forward(features_->forward(input))));
  }

  std::string describe() const override { return "EfficientNet()"; }

 private:
  // torchvision's second pass over the layers, after each was drawn by its default rule.
  void initialise(std::int64_t classes, Mt19937& generator) {
    const double bound = 1 / std::sqrt(static_cast<double>(classes));
    for (auto& [name, parameter] : named_parameters()) {
      if (parameter.shape().rank() == 4) kaiming_normal(parameter.data(), Fan::Out, generator);
      if (parameter.shape().rank() == 2) uniform(parameter.data(), -bound, bound, generator);
      if (name.ends_with("bias")) parameter.data().fill(0);
    }
  }

  std::shared_ptr<Module> features_;
  AdaptiveAvgPool2d mean_{1};
  Flatten flatten_;
  std::shared_ptr<Module> classifier_;
};

}  // namespace

std::shared_ptr<Module> make_efficientnet_b0(std::int64_t classes, Mt19937& generator) {
  return std::make_shared<EfficientNet>(classes, generator);
}

}  // namespace tutti::nn
