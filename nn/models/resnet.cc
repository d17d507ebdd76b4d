// Residual networks: He et al., "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385, as
// torchvision builds them (the stride of a bottleneck on its 3x3 convolution):
// https://github.com/pytorch/vision/blob/main/torchvision/models/resnet.py
//
// torchvision first draws every layer by its default rule in the order of construction, the downsampling of a block
// before the block, then draws the convolutions again by He's rule in the order of registration, where it comes last.
// Both are repeated here, so that one seed gives the same weights.
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/init.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/families.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sequential.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace tutti::nn {
namespace {

using tensor::Activation;
using tensor::Mt19937;

constexpr std::array<std::int64_t, 4> kWidths = {64, 128, 256, 512};

struct BlockOptions {
  std::int64_t inputs = 0;
  std::int64_t width = 0;
  std::int64_t stride = 1;
  std::shared_ptr<Module> downsample;  // of the input, where its shape is not the output's
};

std::shared_ptr<Conv2d> conv3x3(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, Mt19937& generator) {
  const ConvOptions options{.kernel = 3, .stride = stride, .padding = 1, .bias = false};
  return std::make_shared<Conv2d>(inputs, outputs, options, generator);
}

std::shared_ptr<Conv2d> conv1x1(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, Mt19937& generator) {
  const ConvOptions options{.kernel = 1, .stride = stride, .bias = false};
  return std::make_shared<Conv2d>(inputs, outputs, options, generator);
}

// relu(bn2(conv2(relu(bn1(conv1(x))))) + x)
class BasicBlock : public Module {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(const BlockOptions& options, Mt19937& generator) {
    conv1_ = register_module("conv1", conv3x3(options.inputs, options.width, options.stride, generator));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(options.width));
    conv2_ = register_module("conv2", conv3x3(options.width, options.width, 1, generator));
    bn2_ = register_module("bn2", std::make_shared<BatchNorm2d>(options.width));
    if (options.downsample) downsample_ = register_module("downsample", options.downsample);
  }

  Variable forward(const Variable& input) override {
    const Variable x = bn1_->forward(conv1_->forward(input), Activation::Relu);
    const Variable residual = downsample_ ? downsample_->forward(input) : input;
    return bn2_->forward(conv2_->forward(x), Activation::Relu, residual);
  }

  std::string describe() const override { return "BasicBlock()"; }

 private:
  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<BatchNorm2d> bn1_, bn2_;
  std::shared_ptr<Module> downsample_;
};

// relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + x), where conv1 narrows and conv3 widens
class Bottleneck : public Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(const BlockOptions& options, Mt19937& generator) {
    const std::int64_t outputs = options.width * kExpansion;
    conv1_ = register_module("conv1", conv1x1(options.inputs, options.width, 1, generator));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(options.width));
    conv2_ = register_module("conv2", conv3x3(options.width, options.width, options.stride, generator));
    bn2_ = register_module("bn2", std::make_shared<BatchNorm2d>(options.width));
    conv3_ = register_module("conv3", conv1x1(options.width, outputs, 1, generator));
    bn3_ = register_module("bn3", std::make_shared<BatchNorm2d>(outputs));
    if (options.downsample) downsample_ = register_module("downsample", options.downsample);
  }

  Variable forward(const Variable& input) override {
    Variable x = bn1_->forward(conv1_->forward(input), Activation::Relu);
    x = bn2_->forward(conv2_->forward(x), Activation::Relu);
    const Variable residual = downsample_ ? downsample_->forward(input) : input;
    return bn3_->forward(conv3_->forward(x), Activation::Relu, residual);
  }

  std::string describe() const override { return "Bottleneck()"; }

 private:
  std::shared_ptr<Conv2d> conv1_, conv2_, conv3_;
  std::shared_ptr<BatchNorm2d> bn1_, bn2_, bn3_;
  std::shared_ptr<Module> downsample_;
};

template <typename Block>
std::shared_ptr<Module> make_layer(std::int64_t inputs, std::int64_t width, int blocks, std::int64_t stride,
                                   Mt19937& generator) {
  const std::int64_t outputs = width * Block::kExpansion;
  BlockOptions options{.inputs = inputs, .width = width, .stride = stride, .downsample = nullptr};
  if (stride != 1 || inputs != outputs) {
    options.downsample = std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{
        conv1x1(inputs, outputs, stride, generator), std::make_shared<BatchNorm2d>(outputs)});
  }
  std::vector<std::shared_ptr<Module>> layer;
  for (int i = 0; i < blocks; ++i) {
    layer.push_back(std::make_shared<Block>(options, generator));
    options = {.inputs = outputs, .width = width, .stride = 1, .downsample = nullptr};
  }
  return std::make_shared<Sequential>(layer);
}

class ResNet : public Module {
 public:
  /// `blocks` in each of the four layers.
  template <typename Block>
  static std::shared_ptr<ResNet> make(const std::array<int, 4>& blocks, std::int64_t classes, Mt19937& generator) {
    auto net = std::shared_ptr<ResNet>(new ResNet(generator));
    std::int64_t inputs = kWidths[0];
    for (std::size_t i = 0; i < kWidths.size(); ++i) {
      auto layer = make_layer<Block>(inputs, kWidths[i], blocks[i], i == 0 ? 1 : 2, generator);
      net->layers_.push_back(net->register_module("layer" + std::to_string(i + 1), std::move(layer)));
      inputs = kWidths[i] * Block::kExpansion;
    }
    net->fc_ = net->register_module("fc", std::make_shared<Linear>(inputs, classes, generator));
    for (auto& [name, parameter] : net->named_parameters()) {
      if (parameter.shape().rank() == 4) kaiming_normal(parameter.data(), Fan::Out, generator);
    }
    return net;
  }

  // (N, H, W, 3) -> (N, H/4, W/4, 64) -> layer1..4: (N, H/32, W/32, 512 or 2048) -> (N, classes)
  Variable forward(const Variable& input) override {
    Variable x = pool_.forward(bn1_->forward(conv1_->forward(input), Activation::Relu));
    for (const auto& layer : layers_) x = layer->forward(x);
    return fc_->forward(flatten_.forward(mean_.forward(x)));
  }

  std::string describe() const override { return "ResNet()"; }

 private:
  explicit ResNet(Mt19937& generator) {
    const ConvOptions options{.kernel = 7, .stride = 2, .padding = 3, .bias = false};
    conv1_ = register_module("conv1", std::make_shared<Conv2d>(3, kWidths[0], options, generator));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(kWidths[0]));
  }

  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  MaxPool2d pool_{{.kernel = 3, .stride = 2, .padding = 1}};
  std::vector<std::shared_ptr<Module>> layers_;
  AdaptiveAvgPool2d mean_{1};
  Flatten flatten_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

std::shared_ptr<Module> make_resnet(int depth, std::int64_t classes, Mt19937& generator) {
  switch (depth) {
    case 18:
      return ResNet::make<BasicBlock>({2, 2, 2, 2}, classes, generator);
    case 34:
      return ResNet::make<BasicBlock>({3, 4, 6, 3}, classes, generator);
    case 50:
      return ResNet::make<Bottleneck>({3, 4, 6, 3}, classes, generator);
    case 101:
      return ResNet::make<Bottleneck>({3, 4, 23, 3}, classes, generator);
    default:
      throw std::invalid_argument("make_resnet: depth " + std::to_string(depth) + ", expected 18, 34, 50 or 101");
  }
}

}  // namespace tutti::nn
