// A model with its head on one device and its tail on the next, and replicas of the whole under data parallelism.
// (programs.md, rows 16 and 18)
//
//   tutti run -n 2 build/release/bin/examples/model_parallel
//   tutti run -n 4 build/release/bin/examples/model_parallel --toy 1
//
// The first is EfficientNet-B0, cut after features[:4], and makes one step. The other is a toy that sees 2^20 samples
// once: DistributedSampler deals them out in PyTorch's order, and two workers prepare batches ahead of the training.
//
// A node has `--per-node` replicas of `--devices` devices each; replica r of a node starts at device r * devices. On a
// machine without GPUs these are cpu:0, cpu:1 and so on, the CPU under several labels (tensor/device.h): nothing gets
// faster, but what is forgotten to be moved is found. With one device the bits are the same.
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tools/examples/example.h>
#include <tutti/tools/examples/toy.h>
#include <tutti/trainer/data/sampler.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <future>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace tutti;
using tensor::Device;
using tensor::Tensor;
using tensor::Variable;
using Modules = std::vector<std::shared_ptr<nn::Module>>;

constexpr int kWorkers = 2;

struct Settings {
  std::int64_t toy = 0;
  std::int64_t batch = 0;  // of each rank; 0: 20 pictures, or 1024 of the toy's samples
  std::int64_t image_size = 64;
  std::int64_t classes = 5;
  std::int64_t samples = std::int64_t{1} << 20;
  std::int64_t devices = 2;
  std::int64_t per_node = 4;
  std::int64_t cuda = 0;
};

class OnTwoDevices : public nn::Module {
 public:
  OnTwoDevices(const Modules& head, const Modules& tail, Device first, Device second) : first_(first), second_(second) {
    head_ = register_module("head", std::make_shared<nn::Sequential>(head));
    tail_ = register_module("tail", std::make_shared<nn::Sequential>(tail));
    head_->to(first);
    tail_->to(second);
  }
  // Input on any device, output on the second one.
  Variable forward(const Variable& input) override {
    const Variable hidden = head_->forward(tensor::to(input, first_));
    return tail_->forward(tensor::to(hidden, second_));  // recorded: its gradient comes back to the first
  }
  std::string describe() const override { return "OnTwoDevices()"; }

 private:
  Device first_, second_;
  std::shared_ptr<nn::Sequential> head_, tail_;
};

std::shared_ptr<OnTwoDevices> efficientnet(std::int64_t classes, Device first, Device second) {
  const auto whole = nn::make_model("efficientnet_b0", 0, {.classes = classes});
  Modules head, tail;
  for (const auto& [name, stage] : whole->child("features")->named_children())
    (head.size() < 4 ? head : tail).push_back(stage);
  tail.push_back(std::make_shared<nn::AdaptiveAvgPool2d>(1));
  tail.push_back(std::make_shared<nn::Flatten>());
  tail.push_back(whole->child("classifier"));
  return std::make_shared<OnTwoDevices>(head, tail, first, second);
}

std::shared_ptr<OnTwoDevices> toy(Device first, Device second) {
  tensor::Mt19937 generator(0);
  const auto head = std::make_shared<nn::Linear>(32, 32, generator);
  const auto tail = std::make_shared<nn::Linear>(32, 10, generator);
  return std::make_shared<OnTwoDevices>(Modules{head}, Modules{tail}, first, second);
}

/// This rank's share of a step over all ranks, which have equally many samples. Returns the loss.
double finish_step(comm::ProcessGroup& group, trainer::DataParallel& parallel, nn::Optimizer& optimizer,
                   const Variable& loss) {
  parallel.backward(loss, 1.0 / group.world_size());
  parallel.finish();  // takes parameters of any device; gradients stay beside them
  optimizer.step();
  return loss.data().item();
}

void one_step(comm::ProcessGroup& group, const Settings& settings, Device first, Device second) {
  const auto model = efficientnet(settings.classes, first, second);
  trainer::DataParallel parallel(model, group);
  const auto optimizer = nn::make_sgd(examples::parameters_of(*model), {.learning_rate = 0.001});

  const std::int64_t batch = settings.batch > 0 ? settings.batch : 20;
  const std::int64_t from = group.rank() * batch;
  const Tensor pictures = examples::randn(from, {batch, settings.image_size, settings.image_size, 3}, 1);
  const Tensor labels = examples::randn(from, {batch, settings.classes}, 2).to(second);  // where outputs will be
  Tensor samples = Tensor::empty({batch}, tensor::DType::Int64);
  std::iota(samples.data<std::int64_t>(), samples.data<std::int64_t>() + batch, from);
  const nn::SampleKeys keys(samples);  // what dropout draws for a sample depends on the sample, not on its rank

  optimizer->zero_grad();
  const Variable output = parallel.forward(Variable(pictures));
  const double loss = finish_step(group, parallel, *optimizer, tensor::mse_loss(output, labels));
  std::printf("rank %d: features[:4] on %s, the rest on %s, output %s on %s, loss %.4f\n", group.rank(),
              name(first).c_str(), name(second).c_str(), output.shape().to_string().c_str(),
              name(output.data().device()).c_str(), loss);
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);
  if (group.rank() != 0) return;
  std::printf("all ranks: %lld parameters after one step, sha256 %s\n",
              static_cast<long long>(model->parameter_count()), hash.c_str());
}

struct Batch {
  Tensor x;  // (N, 32): the sample's number, 32 times
  Tensor y;  // (N): its last digit
};

Batch make_batch(std::span<const std::int64_t> samples) {
  const auto count = static_cast<std::int64_t>(samples.size());
  Batch batch{Tensor::empty({count, 32}), Tensor::empty({count}, tensor::DType::Int64)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sample = samples[static_cast<std::size_t>(i)];
    std::fill_n(batch.x.data<float>() + 32 * i, 32, static_cast<float>(sample));
    batch.y.data<std::int64_t>()[i] = sample % 10;
  }
  return batch;
}

void one_epoch(comm::ProcessGroup& group, const Settings& settings, Device first, Device second) {
  const auto model = toy(first, second);
  trainer::DataParallel parallel(model, group);
  const auto optimizer = nn::make_adam(examples::parameters_of(*model), {.learning_rate = 0.0001});
  std::printf("rank %d: head on %s, tail on %s\n", group.rank(), name(first).c_str(), name(second).c_str());

  const trainer::DistributedSampler sampler(
      {.count = settings.samples, .replicas = group.world_size(), .rank = group.rank()});
  const std::vector<std::int64_t> mine = sampler.indices(0);
  const std::size_t batch_size = settings.batch > 0 ? static_cast<std::size_t>(settings.batch) : 1024;
  std::span<const std::int64_t> rest(mine);
  std::deque<std::future<Batch>> coming;  // in order
  const auto prepare_next = [&] {
    if (rest.empty()) return;
    const auto samples = rest.first(std::min(rest.size(), batch_size));
    rest = rest.subspan(samples.size());
    coming.push_back(std::async(std::launch::async, make_batch, samples));
  };
  for (int worker = 0; worker < kWorkers; ++worker) prepare_next();
  const auto begin = std::chrono::steady_clock::now();
  double loss_sum = 0;
  int steps = 0;
  for (; !coming.empty(); ++steps) {
    const Batch batch = coming.front().get();
    coming.pop_front();
    prepare_next();
    optimizer->zero_grad();
    const Variable output = parallel.forward(Variable(batch.x));
    loss_sum += finish_step(group, parallel, *optimizer, tensor::cross_entropy(output, batch.y.to(second)));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  double mean = loss_sum / steps;
  group.all_reduce(std::span<double>(&mean, 1), comm::ReduceOp::Avg);
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);
  if (group.rank() != 0) return;
  std::printf("%d steps of %zu samples a rank in %.1f s, mean loss %.6g\n", steps, batch_size, seconds.count(), mean);
  std::printf("parameters sha256 %s, the same on all %d ranks\n", hash.c_str(), group.world_size());
}

void run(comm::ProcessGroup& group, const Settings& settings) {
  if (settings.devices < 1 || settings.devices > 2)
    throw std::invalid_argument("--devices is " + std::to_string(settings.devices) + ", this model can use 1 or 2");
  if (settings.samples < 1 || settings.per_node < 1)
    throw std::invalid_argument("--samples and --per-node are at least 1");
  const std::string kind = settings.cuda != 0 ? "cuda:" : "cpu:";
  const std::int64_t start = settings.devices * (group.rank() % settings.per_node);
  const Device first = tensor::parse_device(kind + std::to_string(start));
  const Device second = tensor::parse_device(kind + std::to_string(start + settings.devices - 1));
  (settings.toy != 0 ? one_epoch : one_step)(group, settings, first, second);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  return examples::run(argc, argv,
                       {{"--toy", settings.toy, "1: the toy and its samples"},
                        {"--batch", settings.batch, "of each rank; 0: 20 pictures, or 1024 samples"},
                        {"--image-size", settings.image_size, "the pictures' side in pixels"},
                        {"--classes", settings.classes, "outputs for pictures"},
                        {"--samples", settings.samples, "in the toy's data set"},
                        {"--devices", settings.devices, "of a replica, 1 or 2"},
                        {"--per-node", settings.per_node, "replicas of a node"},
                        {"--cuda", settings.cuda, "1: devices are GPUs"}},
                       [&](comm::ProcessGroup& group) { run(group, settings); });
}
