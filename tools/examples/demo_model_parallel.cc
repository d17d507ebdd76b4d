// EfficientNet-B0 cut after features[:4], its halves on two devices, and replicas of the whole under data parallelism.
// (programs.md, row 16)
//
//   tutti run -n 2 build/release/bin/examples/demo_model_parallel
//
// Rank r uses the devices 2r and 2r + 1: two ranks use four. On a machine without GPUs these are cpu:0 to cpu:3, the
// CPU under four labels (tensor/device.h): nothing gets faster, but what is forgotten to be moved is found. With
// `--devices 1` both halves lie on one device; the bits are the same.
#include <tutti/nn/flatten.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tools/examples/example.h>
#include <tutti/tools/examples/toy.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>

#include <cstdio>
#include <numeric>
#include <stdexcept>

namespace {

using namespace tutti;
using tensor::Device;
using tensor::Tensor;
using tensor::Variable;

class EfficientNetOnTwoDevices : public nn::Module {
 public:
  EfficientNetOnTwoDevices(Device dev0, Device dev1, std::int64_t classes) : dev0_(dev0), dev1_(dev1) {
    const auto whole = nn::make_model("efficientnet_b0", 0, {.classes = classes});
    std::vector<std::shared_ptr<nn::Module>> front, back;
    for (const auto& [name, stage] : whole->child("features")->named_children()) {
      (front.size() < 4 ? front : back).push_back(stage);
    }
    features0_ = register_module("features0", std::make_shared<nn::Sequential>(front));
    features1_ = register_module("features1", std::make_shared<nn::Sequential>(back));
    classifier_ = register_module("classifier", whole->child("classifier"));
    features0_->to(dev0);
    features1_->to(dev1);
    classifier_->to(dev1);
  }

  // x (N, H, W, 3) on any device -> (N, classes) on dev1
  Variable forward(const Variable& input) override {
    Variable x = features0_->forward(tensor::to(input, dev0_));
    x = features1_->forward(tensor::to(x, dev1_));  // recorded: its gradient comes back to dev0
    return classifier_->forward(flatten_.forward(average_.forward(x)));
  }

  std::string describe() const override { return "EfficientNetOnTwoDevices()"; }

 private:
  Device dev0_, dev1_;
  std::shared_ptr<nn::Module> features0_, features1_, classifier_;
  nn::AdaptiveAvgPool2d average_{1};
  nn::Flatten flatten_;
};

struct Settings {
  std::int64_t batch = 20;
  std::int64_t image_size = 64;
  std::int64_t classes = 5;
  std::int64_t devices = 2;
};

void demo_model_parallel(comm::ProcessGroup& group, const Settings& settings) {
  const Device dev0{Device::Kind::Cpu, 2 * group.rank()};
  const Device dev1{Device::Kind::Cpu, 2 * group.rank() + (settings.devices == 2 ? 1 : 0)};
  const auto model = std::make_shared<EfficientNetOnTwoDevices>(dev0, dev1, settings.classes);
  trainer::DataParallel parallel(model, group);  // takes parameters of any device; gradients stay beside them
  const auto optimizer = nn::make_sgd(examples::parameters_of(*model), {.learning_rate = 0.001});

  const std::int64_t first = group.rank() * settings.batch;
  const Tensor pictures = examples::randn(first, {settings.batch, settings.image_size, settings.image_size, 3}, 1);
  const Tensor labels =
      examples::randn(first, {settings.batch, settings.classes}, 2).to(dev1);  // where outputs will be
  Tensor samples = Tensor::empty({settings.batch}, tensor::DType::Int64);
  std::iota(samples.data<std::int64_t>(), samples.data<std::int64_t>() + settings.batch, first);
  const nn::SampleKeys keys(samples);  // what dropout draws for a sample depends on the sample, not on its rank

  optimizer->zero_grad();
  const Variable output = parallel.forward(Variable(pictures));
  const Variable loss = tensor::mse_loss(output, labels);
  parallel.backward(loss, 1.0 / group.world_size());
  parallel.finish();
  optimizer->step();

  std::printf("rank %d: features[:4] on %s, the rest on %s, output %s on %s, loss %.4f\n", group.rank(),
              name(dev0).c_str(), name(dev1).c_str(), output.shape().to_string().c_str(),
              name(output.data().device()).c_str(), loss.data().item());
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);
  if (group.rank() == 0) {
    std::printf("all ranks: %lld parameters after one step, sha256 %s\n",
                static_cast<long long>(model->parameter_count()), hash.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  return examples::run(argc, argv,
                       {{"--batch", settings.batch, "pictures of each rank"},
                        {"--image-size", settings.image_size, "their side in pixels"},
                        {"--classes", settings.classes, "outputs"},
                        {"--devices", settings.devices, "of each rank, 1 or 2"}},
                       [&](comm::ProcessGroup& group) {
                         if (settings.devices < 1 || settings.devices > 2) {
                           throw std::invalid_argument("--devices is " + std::to_string(settings.devices) +
                                                       ", this model can use 1 or 2");
                         }
                         demo_model_parallel(group, settings);
                       });
}
