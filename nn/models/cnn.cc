// Small convolutional networks for 28 x 28 pictures: cnn and lenet5.
//
// lenet5 is LeCun et al., "Gradient-based learning applied to document recognition" (1998), as it is taught today: ReLU
// for the sigmoids, max pooling, every map connected to every map, padding 2 for the 28 x 28 pixels.
#include <tutti/nn/conv2d.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/families.h>
#include <tutti/nn/pooling.h>

namespace tutti::nn {
namespace {

using tensor::Activation;

// (N, 28, 28, 1) -> conv1 (N, 26, 26, 32) -> conv2 (N, 24, 24, 64) -> pool (N, 12, 12, 64) -> fc1 (N, 128) -> fc2
class Cnn : public Module {
 public:
  Cnn(std::int64_t classes, tensor::Mt19937& generator) {
    conv1_ = register_module("conv1", std::make_shared<Conv2d>(1, 32, ConvOptions{.kernel = 3}, generator));
    conv2_ = register_module("conv2", std::make_shared<Conv2d>(32, 64, ConvOptions{.kernel = 3}, generator));
    fc1_ = register_module("fc1", std::make_shared<Linear>(9216, 128, generator));
    fc2_ = register_module("fc2", std::make_shared<Linear>(128, classes, generator));
  }

  Variable forward(const Variable& input) override {
    Variable x = conv1_->forward(input, Activation::Relu);
    x = pool_.forward(conv2_->forward(x, Activation::Relu));
    return fc2_->forward(fc1_->forward(flatten_.forward(x), Activation::Relu));
  }

  std::string describe() const override { return "Cnn()"; }

 private:
  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<Linear> fc1_, fc2_;
  MaxPool2d pool_{{.kernel = 2}};
  Flatten flatten_;
};

// (N, 28, 28, 1) -> conv1 (N, 28, 28, 6) -> pool (N, 14, 14, 6) -> conv2 (N, 10, 10, 16) -> pool (N, 5, 5, 16) -> fc1
// (N, 120) -> fc2 (N, 84) -> fc3
class LeNet5 : public Module {
 public:
  LeNet5(std::int64_t classes, tensor::Mt19937& generator) {
    conv1_ =
        register_module("conv1", std::make_shared<Conv2d>(1, 6, ConvOptions{.kernel = 5, .padding = 2}, generator));
    conv2_ = register_module("conv2", std::make_shared<Conv2d>(6, 16, ConvOptions{.kernel = 5}, generator));
    fc1_ = register_module("fc1", std::make_shared<Linear>(400, 120, generator));
    fc2_ = register_module("fc2", std::make_shared<Linear>(120, 84, generator));
    fc3_ = register_module("fc3", std::make_shared<Linear>(84, classes, generator));
  }

  Variable forward(const Variable& input) override {
    Variable x = pool_.forward(conv1_->forward(input, Activation::Relu));
    x = flatten_.forward(pool_.forward(conv2_->forward(x, Activation::Relu)));
    return fc3_->forward(fc2_->forward(fc1_->forward(x, Activation::Relu), Activation::Relu));
  }

  std::string describe() const override { return "LeNet5()"; }

 private:
  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<Linear> fc1_, fc2_, fc3_;
  MaxPool2d pool_{{.kernel = 2}};
  Flatten flatten_;
};

}  // namespace

std::shared_ptr<Module> make_cnn(std::int64_t classes, tensor::Mt19937& generator) {
  return std::make_shared<Cnn>(classes, generator);
}

std::shared_ptr<Module> make_lenet5(std::int64_t classes, tensor::Mt19937& generator) {
  return std::make_shared<LeNet5>(classes, generator);
}

}  // namespace tutti::nn
