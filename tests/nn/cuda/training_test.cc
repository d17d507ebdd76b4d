// Layers, models and optimizers on a GPU against the CPU: the same steps give the same parameters.
#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/scheduled.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/ops.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../keyed.h"
#if __has_include(<emulator.h>)
#include <emulator.h>
#define TUTTI_EMULATED_GPU
#endif

namespace tutti::nn::test {
namespace {

using tensor::Device;
using tensor::DType;
using tensor::Variable;

constexpr Device kGpu{Device::Kind::Cuda, 0};

std::vector<float> floats(const Tensor& tensor) {
  const Tensor here = tensor.to(DType::Float32).contiguous().on_host();
  return {here.data<float>(), here.data<float>() + here.numel()};
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  const std::vector<float> a = floats(got);
  const std::vector<float> b = floats(expected);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(static_cast<double>(b[i])))) << what << "[" << i << "]";
  }
}

std::shared_ptr<Sequential> some_of_everything() {
  tensor::Mt19937 generator(7);
  return std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{
      std::make_shared<Conv2d>(2, 4, ConvOptions{.kernel = 3, .padding = 1}, generator),
      std::make_shared<BatchNorm2d>(4), std::make_shared<SiLU>(), std::make_shared<StochasticDepth>(0.3, 5),
      std::make_shared<MaxPool2d>(tensor::Pool2dOptions{.kernel = 2}), std::make_shared<Flatten>(),
      std::make_shared<Dropout>(0.4, 6), std::make_shared<Linear>(4 * 3 * 3, 5, generator)});
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<Variable>)>;

struct Result {
  std::vector<std::pair<std::string, Tensor>> tensors;  // parameters, buffers, optimizer state
  std::vector<double> losses;
};

Result train(Device device, const MakeOptimizer& make, double clip) {
  const auto model = some_of_everything();
  model->to(device);
  std::vector<Variable> parameters = parameters_of(*model);
  const auto optimizer = make(parameters);
  const Tensor keys = Tensor::from<std::int64_t>({6}, {1, 2, 3, 4, 5, 6});
  const Tensor targets = Tensor::from<std::int64_t>({6}, {0, 1, 2, 3, 4, 0}).to(device);
  Result result;
  for (std::uint32_t step = 0; step < 4; ++step) {
    const SampleKeys scope(keys);
    const Variable x(keyed_tensor({6, 6, 6, 2}, step).to(device));
    Variable loss = tensor::cross_entropy(model->forward(x), targets);
    optimizer->zero_grad();
    loss.backward();
    if (clip > 0) clip_grad_norm(parameters, clip);
    optimizer->step();
    result.losses.push_back(loss.data().item());
  }
  for (const auto& [name, parameter] : model->named_parameters()) {
    EXPECT_EQ(parameter.data().device(), device) << name;
    result.tensors.emplace_back(name, parameter.data());
  }
  for (const auto& [name, buffer] : model->named_buffers()) result.tensors.emplace_back(name, buffer);
  for (const auto& [name, state] : optimizer->state()) result.tensors.emplace_back("state " + name, state);
  return result;
}

void expect_same_training(const MakeOptimizer& make, double clip = 0) {
  const Result here = train({}, make, clip);
  const Result there = train(kGpu, make, clip);
  for (std::size_t i = 0; i < here.losses.size(); ++i) EXPECT_NEAR(there.losses[i], here.losses[i], 2e-4) << i;
  ASSERT_EQ(here.tensors.size(), there.tensors.size());
  for (std::size_t i = 0; i < here.tensors.size(); ++i) {
    expect_close(there.tensors[i].second, here.tensors[i].second, 1e-3, here.tensors[i].first);
  }
}

TEST(CudaTraining, SgdAndItsVariants) {
  expect_same_training([](auto p) { return make_sgd(p, {.learning_rate = 0.05, .weight_decay = 0.01}); });
  expect_same_training([](auto p) { return make_sgd(p, {.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}); });
  expect_same_training([](auto p) { return make_sgd(p, {.learning_rate = 0.05, .momentum = 0.9, .dampening = 0.5}); });
}

TEST(CudaTraining, AdamAdamWAndAdadelta) {
  const AdamOptions adam{.learning_rate = 1e-3, .epsilon = 1e-3, .weight_decay = 0.1};
  expect_same_training([&](auto p) { return make_adam(p, adam); });
  AdamOptions decoupled = adam;
  decoupled.decoupled_weight_decay = true;
  expect_same_training([&](auto p) { return make_adam(p, decoupled); });
  expect_same_training([](auto p) { return make_adadelta(p, {.epsilon = 1e-3, .weight_decay = 0.1}); });
}

TEST(CudaTraining, ClippedAndScheduled) {
  expect_same_training([](auto p) { return make_sgd(p, {.learning_rate = 0.1}); }, 0.05);
  expect_same_training(
      [](auto p) { return make_scheduled(p, make_sgd(p, {.learning_rate = 0.1}), step_decay(0.1, 2), 0.05); });
}

TEST(CudaTraining, CountersStayWithTheHost) {
  const auto model = some_of_everything();
  model->to(kGpu);
  for (const auto& [name, buffer] : model->named_buffers()) {
    EXPECT_EQ(buffer.device(), buffer.dtype() == DType::Int64 ? Device{} : kGpu) << name;
  }
}

// More parameters than one table holds, some of them empty, one longer than a block's piece, most not aligned.
TEST(CudaUpdates, ManyParametersTakeFewLaunches) {
  constexpr std::int64_t kTotal = 20'000;
  using Updated = tensor::UpdatedParameter;
  float* Updated::*const fields[] = {&Updated::values, &Updated::gradient, &Updated::first, &Updated::second};
  std::vector<Tensor> here;
  std::vector<Tensor> there;
  for (std::uint32_t field = 0; field < 4; ++field) {
    here.push_back(keyed_tensor({kTotal}, field));
    if (field == 3) tensor::kernels({}).mul(here[3], here[3], here[3], false);
    there.push_back(here.back().to(kGpu));
  }
  std::vector<Updated> lists[2];
  std::int64_t at = 1;
  for (std::int64_t i = 0; i < 700; ++i) {
    Updated updated{.count = i % 50 == 0 ? 0
                             : i == 77   ? 9001
                                         : 1 + i % 7,
                    .rate = 0.01F * static_cast<float>(1 + i % 3),
                    .scale = 1.5F};
    for (std::size_t device = 0; device < 2; ++device) {
      for (std::size_t field = 0; field < 4; ++field) {
        Tensor& all = device == 0 ? here[field] : there[field];
        updated.*fields[field] = static_cast<float*>(all.raw()) + at;
      }
      lists[device].push_back(updated);
    }
    at += updated.count + 1;
  }
  ASSERT_LE(at, kTotal);
  const tensor::AdamRule rule{.beta1 = 0.9F,
                              .one_minus_beta1 = 0.1F,
                              .beta2 = 0.99F,
                              .one_minus_beta2 = 0.01F,
                              .epsilon = 1e-3F,
                              .weight_decay = 0.1F,
                              .keep = 0.999F};
  tensor::kernels({}).adam_update({}, lists[0], rule);
#if defined(TUTTI_EMULATED_GPU)
  const std::uint64_t before = cuda_emulator::launches();
#endif
  tensor::kernels(kGpu).adam_update(kGpu, lists[1], rule);
#if defined(TUTTI_EMULATED_GPU)
  EXPECT_EQ(cuda_emulator::launches() - before, 2u);
#endif
  for (std::size_t i = 0; i < here.size(); ++i) expect_close(there[i], here[i], 1e-5, std::to_string(i));
  const double squares = tensor::kernels({}).sum_of_squares({}, lists[0]);
  EXPECT_NEAR(tensor::kernels(kGpu).sum_of_squares(kGpu, lists[1]), squares, 1e-9 * squares);
}

TEST(CudaMemory, TrainingAllocatesNothingAfterItsFirstSteps) {
  const auto model = some_of_everything();
  model->to(kGpu);
  const auto optimizer = make_adam(parameters_of(*model), {});
  const SampleKeys keys(Tensor::from<std::int64_t>({6}, {1, 2, 3, 4, 5, 6}));
  const Tensor targets = Tensor::from<std::int64_t>({6}, {0, 1, 2, 3, 4, 0}).to(kGpu);
  const Variable x(keyed_tensor({6, 6, 6, 2}, 1).to(kGpu));
  std::size_t after_two = 0;
  for (int step = 0; step < 5; ++step) {
    Variable loss = tensor::cross_entropy(model->forward(x), targets);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    if (step == 1) after_two = tensor::cuda::memory_use(kGpu).system_allocations;
  }
  EXPECT_EQ(tensor::cuda::memory_use(kGpu).system_allocations, after_two);
}

}  // namespace
}  // namespace tutti::nn::test
