// A model with its head on one device and its tail on the next, an epoch over 2^20 samples, replicas under data
// parallelism. (programs.md, row 18)
//
//   tutti run -n 4 build/release/bin/examples/toy_model_parallel
//
// A node has group_per_node replicas of group_size devices each; replica r of a node starts at device group_size * r.
// Samples are dealt out by DistributedSampler, in PyTorch's order; two workers prepare batches ahead of the training.
#include <tutti/nn/linear.h>
#include <tutti/nn/optim/optimizer.h>
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
#include <span>
#include <string>
#include <vector>

namespace {

using namespace tutti;
using tensor::Device;
using tensor::Tensor;
using tensor::Variable;

constexpr int kWorkers = 2;

struct Settings {
  std::int64_t samples = std::int64_t{1} << 20;
  std::int64_t batch_size = 1024;  // of each rank
  std::int64_t group_size = 2;     // devices of a replica
  std::int64_t group_per_node = 4;
  std::int64_t cuda = 0;
};

class ToyModel : public nn::Module {
 public:
  ToyModel(Device first, Device second) : first_(first), second_(second) {
    tensor::Mt19937 generator(0);
    head_ = register_module("head", std::make_shared<nn::Linear>(32, 32, generator));
    tail_ = register_module("tail", std::make_shared<nn::Linear>(32, 10, generator));
    head_->to(first);
    tail_->to(second);
  }
  Variable forward(const Variable& input) override {
    const Variable hidden = tensor::to(head_->forward(input), second_);
    return tensor::to(tail_->forward(hidden), first_);
  }
  std::string describe() const override { return "ToyModel()"; }

 private:
  Device first_, second_;
  std::shared_ptr<nn::Linear> head_, tail_;
};

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

void train(comm::ProcessGroup& group, const Settings& settings) {
  const std::string kind = settings.cuda != 0 ? "cuda:" : "cpu:";
  const std::int64_t start = settings.group_size * (group.rank() % settings.group_per_node);
  const Device first = tensor::parse_device(kind + std::to_string(start));
  const Device second = tensor::parse_device(kind + std::to_string(start + settings.group_size - 1));
  const auto model = std::make_shared<ToyModel>(first, second);
  trainer::DataParallel parallel(model, group);
  const auto optimizer = nn::make_adam(examples::parameters_of(*model), {.learning_rate = 0.0001});
  std::printf("rank %d: head on %s, tail on %s\n", group.rank(), name(first).c_str(), name(second).c_str());

  const trainer::DistributedSampler sampler(
      {.count = settings.samples, .replicas = group.world_size(), .rank = group.rank()});
  const std::vector<std::int64_t> mine = sampler.indices(0);
  std::span<const std::int64_t> rest(mine);
  std::deque<std::future<Batch>> coming;  // in order
  const auto prepare_next = [&] {
    if (rest.empty()) return;
    const auto samples = rest.first(std::min(rest.size(), static_cast<std::size_t>(settings.batch_size)));
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
    const Variable output = parallel.forward(Variable(batch.x.to(first)));
    const Variable loss = tensor::cross_entropy(output, batch.y.to(first));
    parallel.backward(loss, 1.0 / group.world_size());  // the sampler gives all ranks equally many
    parallel.finish();
    optimizer->step();
    loss_sum += loss.data().item();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  double mean = loss_sum / steps;
  group.all_reduce(std::span<double>(&mean, 1), comm::ReduceOp::Avg);
  const std::string hash = trainer::agreed_parameter_sha256(group, *model);
  if (group.rank() != 0) return;
  std::printf("%d steps of %lld samples a rank in %.1f s, mean loss %.6g\n", steps,
              static_cast<long long>(settings.batch_size), seconds.count(), mean);
  std::printf("parameters sha256 %s, the same on all %d ranks\n", hash.c_str(), group.world_size());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  return examples::run(argc, argv,
                       {{"--samples", settings.samples, "in the data set"},
                        {"--batch-size", settings.batch_size, "of each rank"},
                        {"--group-size", settings.group_size, "devices of a replica"},
                        {"--group-per-node", settings.group_per_node, "replicas of a node"},
                        {"--cuda", settings.cuda, "1: devices are GPUs"}},
                       [&](comm::ProcessGroup& group) {
                         for (const std::int64_t value :
                              {settings.samples, settings.batch_size, settings.group_size, settings.group_per_node}) {
                           if (value < 1) throw std::invalid_argument("every number but --cuda's is at least 1");
                         }
                         train(group, settings);
                       });
}
