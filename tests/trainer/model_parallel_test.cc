// A model whose parts lie on different devices of one rank, and its replicas under DataParallel.
#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/data_parallel/shared_batch.h>

#include <functional>

namespace tutti::trainer {
namespace {

using tensor::Device;
using tensor::Tensor;
using tensor::Variable;

Device cpu(int index) { return {Device::Kind::Cpu, index}; }

class TwoParts : public nn::Module {
 public:
  TwoParts(Device head, Device tail) : head_device_(head), tail_device_(tail) {
    tensor::Mt19937 generator(1);
    head_ = register_module("head", std::make_shared<nn::Linear>(6, 8, generator));
    tail_ = register_module("tail", std::make_shared<nn::Linear>(8, 3, generator));
    head_->to(head);
    tail_->to(tail);
  }
  Variable forward(const Variable& input) override {
    const Variable hidden = relu(head_->forward(tensor::to(input, head_device_)));
    return tensor::to(tail_->forward(tensor::to(hidden, tail_device_)), head_device_);
  }
  std::string describe() const override { return "TwoParts()"; }

 private:
  Device head_device_, tail_device_;
  std::shared_ptr<nn::Linear> head_, tail_;
};

using DevicesOf = std::function<std::pair<Device, Device>(int rank)>;

/// Trains on two ranks, whose replicas take the devices that `devices_of` says. Returns the agreed hash.
std::string train(const DevicesOf& devices_of, std::size_t bucket_bytes, bool sharded = false) {
  std::vector<std::string> hashes(2);
  test::run_ranks(2, [&](comm::ProcessGroup& group) {
    const auto [head, tail] = devices_of(group.rank());
    const auto model = std::make_shared<TwoParts>(head, tail);
    DataParallelOptions options{.buckets = {.first_bucket_bytes = bucket_bytes, .bucket_cap_bytes = bucket_bytes}};
    if (sharded) options.exchange = make_shard_exchange;
    DataParallel parallel(model, group, options);
    const std::vector<Variable> parameters = all_parameters(*model);
    const auto adam = [](std::vector<Variable> p) { return nn::make_adam(std::move(p), {.learning_rate = 0.1}); };
    std::unique_ptr<nn::Optimizer> optimizer = adam(parameters);
    if (sharded) optimizer = std::make_unique<ShardedOptimizer>(parameters, parallel.buckets(), group, adam);
    for (int step = 0; step < 4; ++step) {
      const Variable x(Tensor::full({5, 6}, 0.1 * (step + 1) * (group.rank() + 1)));
      const Tensor y = Tensor::full({5}, step % 3, tensor::DType::Int64).to(head);
      optimizer->zero_grad();
      parallel.backward(cross_entropy(parallel.forward(x), y), 0.5);
      parallel.finish();
      for (const Variable& parameter : parameters) {
        EXPECT_EQ(parameter.grad().device(), parameter.data().device());
      }
      optimizer->step();
    }
    EXPECT_EQ(parameters[2].data().device(), tail);
    hashes[static_cast<std::size_t>(group.rank())] = agreed_parameter_sha256(group, *model);
  });
  EXPECT_EQ(hashes[0], hashes[1]);
  return hashes[0];
}

// Four devices for two replicas, as on a machine with four GPUs; one bucket over both devices, or many.
TEST(ModelParallel, ReplicasOnTwoDevicesEachHaveTheBitsOfOneDevice) {
  const auto one_device = [](int) { return std::pair(cpu(0), cpu(0)); };
  const auto two_each = [](int rank) { return std::pair(cpu(2 * rank), cpu(2 * rank + 1)); };
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{64}}) {
    EXPECT_EQ(train(two_each, bytes), train(one_device, bytes)) << bytes;
  }
}

TEST(ModelParallel, AModelInUseStaysWhereItIs) {
  test::run_ranks(2, [&](comm::ProcessGroup& group) {
    const auto model = std::make_shared<TwoParts>(cpu(0), cpu(1));
    const DataParallel parallel(model, group);
    const std::string text = error_of([&] { model->to(cpu(0)); });
    test::expect_parts(text, {"cannot move from cpu:1 to cpu: its gradient lives in memory given"});
  });
}

TEST(ModelParallel, ACheckpointDoesNotKnowDevices) {
  const TemporaryFolder folder;
  test::run_ranks(1, [&](comm::ProcessGroup& group) {
    TwoParts there(cpu(0), cpu(1));
    TwoParts here(cpu(0), cpu(0));
    there.named_parameters()[2].second.data().fill(0.25);
    assign_tensors(model_tensors(here), model_tensors(there), "a copy");
    EXPECT_EQ(parameter_sha256(here), parameter_sha256(there));
    EXPECT_EQ(here.named_parameters()[2].second.data().device(), cpu(0));
    EXPECT_EQ(group.world_size(), 1);
  });
}

// The parameters of a bucket lie on both devices.
TEST(ModelParallel, ShardedOptimizerUpdatesPartsOnSeveralDevices) {
  const auto with_tail_on = [](int tail) { return [tail](int) { return std::pair(cpu(0), cpu(tail)); }; };
  EXPECT_EQ(train(with_tail_on(1), 1 << 20, true), train(with_tail_on(0), 1 << 20, true));
}

TEST(ModelParallel, SynchronisedBatchNormRunsOnAnyDevice) {
  const auto gradient = [](Device device) {
    Values values;
    test::run_ranks(2, [&](comm::ProcessGroup& group) {
      const auto model = std::make_shared<nn::BatchNorm2d>(2);
      model->to(device);
      EXPECT_EQ(synchronise_batch_norm(*model, group), 1);
      Tensor x = Tensor::from<float>({1, 1, 2, 2}, {1, 2, 3, 5});
      x.data<float>()[0] += static_cast<float>(group.rank());
      Variable loss = sum(tensor::tanh(model->forward(Variable(x.to(device)))));
      loss.backward();
      if (group.rank() > 0) return;
      values = values_of(model->named_parameters()[0].second.grad());
    });
    return values;
  };
  EXPECT_EQ(gradient(cpu(3)), gradient(cpu(0)));
}

// Layers that make tensors of their own make them where their input is: dropout's keys, the factors of stochastic
// depth, batch norm's statistics.
TEST(ModelParallel, AWholeModelRunsOnAnotherDevice) {
  const auto gradient = [](Device device) {
    const auto model = nn::make_model("efficientnet_b0", 0, {.classes = 3});
    model->to(device);
    const nn::SampleKeys keys(Tensor::from<std::int64_t>({2}, {5, 6}));
    const Variable y = model->forward(Variable(Tensor::full({2, 32, 32, 3}, 0.5, tensor::DType::Float32, device)));
    EXPECT_EQ(y.data().device(), device);
    Variable loss = cross_entropy(y, Tensor::full({2}, 1, tensor::DType::Int64, device));
    loss.backward();
    return values_of(model->named_parameters()[0].second.grad());
  };
  EXPECT_EQ(gradient(cpu(1)), gradient(cpu(0)));
}

}  // namespace
}  // namespace tutti::trainer
