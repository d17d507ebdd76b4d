#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/conv2d.h>
#include <tutti/nn/dropout.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/pooling.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>
#include <tutti/tests/nn/keyed.h>
#include <tutti/tests/support/expect_text.h>

#include <cmath>
#include <functional>

namespace tutti::nn {
namespace {

using tensor::Activation;
using test::error_of;
using test::expect_near;
using test::input_error;
using test::keyed_tensor;
using test::to_vector;
using Modules = std::vector<std::shared_ptr<Module>>;

TEST(Conv2d, ParametersShapesAndDescription) {
  tensor::Mt19937 generator(0);
  Conv2d plain(3, 8, {.kernel = 3}, generator);
  EXPECT_EQ(plain.describe(), "Conv2d(3, 8, kernel 3)");
  EXPECT_EQ(plain.named_parameters().at(0).second.shape(), (tensor::Shape{8, 3, 3, 3}));
  EXPECT_EQ(plain.named_parameters().at(1).first, "bias");
  EXPECT_EQ(plain.forward(Variable(Tensor::zeros({2, 9, 7, 3}))).shape(), (tensor::Shape{2, 7, 5, 8}));
  Conv2d depthwise(8, 8, {.kernel = {3, 5}, .stride = 2, .padding = {1, 2}, .groups = 8, .bias = false}, generator);
  EXPECT_EQ(depthwise.describe(), "Conv2d(8, 8, kernel 3x5, stride 2, padding 1x2, groups 8, no bias)");
  ASSERT_EQ(depthwise.named_parameters().size(), 1u);
  EXPECT_EQ(depthwise.weight().shape(), (tensor::Shape{8, 1, 3, 5}));
  EXPECT_EQ(depthwise.forward(Variable(Tensor::zeros({2, 9, 7, 8}))).shape(), (tensor::Shape{2, 5, 4, 8}));
}

TEST(Conv2d, FirstValuesLieWithinTheDefaultBound) {
  tensor::Mt19937 generator(0);
  const Conv2d layer(6, 4, {.kernel = 5, .groups = 2}, generator);
  for (const auto& [name, parameter] : layer.named_parameters()) {
    for (const double value : to_vector(parameter.data())) EXPECT_LE(std::abs(value), 1 / std::sqrt(3 * 25.0)) << name;
  }
}

TEST(Conv2d, ErrorsNameTheLayerAndTheShape) {
  tensor::Mt19937 generator(0);
  Conv2d layer(3, 8, {.kernel = 3}, generator);
  EXPECT_EQ(input_error(layer, {2, 3, 9, 9}),
            "Conv2d(3, 8, kernel 3): the input has shape (2, 3, 9, 9), expected (N, H, W, 3)");
  EXPECT_EQ(error_of([&] { Conv2d(3, 8, {.kernel = 3, .groups = 2}, generator); }),
            "Conv2d(3, 8, kernel 3, groups 2): expected positive numbers, padding 0 or more, and inputs and outputs "
            "that are multiples of groups");
}

TEST(BatchNorm2d, TrainingNormalisesAndMovesTheStatistics) {
  BatchNorm2d layer(2);
  const Variable x(Tensor::from<float>({2, 1, 2, 2}, {1, 10, 2, 20, 3, 30, 4, 40}));
  const auto y = to_vector(layer.forward(x).data());
  EXPECT_NEAR(y[0], -1.5 / std::sqrt(1.25 + 1e-5), 1e-5);
  EXPECT_NEAR(y[7], 15 / std::sqrt(125 + 1e-5), 1e-5);
  const auto buffers = layer.named_buffers();
  ASSERT_EQ(buffers.size(), 3u);
  EXPECT_EQ(buffers[0].first, "running_mean");
  expect_near(to_vector(buffers[0].second), {0.25, 2.5}, 1e-6, "running_mean");
  EXPECT_EQ(buffers[1].first, "running_var");
  expect_near(to_vector(buffers[1].second), {0.9 + 0.1 * 5 / 3, 0.9 + 0.1 * 500 / 3}, 1e-5, "running_var");
  EXPECT_EQ(buffers[2].first, "num_batches_tracked");
  EXPECT_EQ(buffers[2].second.item(), 1);
  EXPECT_EQ(buffers[2].second.rank(), 0);

  layer.train(false);
  const auto evaluated = to_vector(layer.forward(x).data());
  EXPECT_NEAR(evaluated[0], 0.75 / std::sqrt(0.9 + 0.5 / 3), 1e-5);
  EXPECT_EQ(buffers[2].second.item(), 1);
}

TEST(BatchNorm2d, ErrorsNameTheLayer) {
  BatchNorm2d layer(4);
  EXPECT_EQ(input_error(layer, {2, 4, 9, 9}),
            "BatchNorm2d(4): the input has shape (2, 4, 9, 9), expected (N, H, W, 4)");
  tutti::test::expect_parts(error_of([] { BatchNorm2d(0); }), {"BatchNorm2d(0) with momentum"});
}

TEST(Pooling, ShapesAndDescriptions) {
  MaxPool2d most({.kernel = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(most.describe(), "MaxPool2d(kernel 3, stride 2, padding 1)");
  EXPECT_EQ(most.forward(Variable(Tensor::zeros({1, 9, 8, 5}))).shape(), (tensor::Shape{1, 5, 4, 5}));
  AvgPool2d mean({.kernel = {2, 3}});
  EXPECT_EQ(mean.describe(), "AvgPool2d(kernel 2x3)");
  EXPECT_EQ(mean.forward(Variable(Tensor::full({1, 4, 6, 5}, 3))).data().narrow(0, 0, 1).shape(),
            (tensor::Shape{1, 2, 2, 5}));
  AdaptiveAvgPool2d one(1);
  EXPECT_EQ(one.describe(), "AdaptiveAvgPool2d(1)");
  const Variable x(Tensor::from<float>({1, 1, 2, 2}, {1, 10, 3, 30}));
  EXPECT_EQ(to_vector(one.forward(x).data()), (std::vector<double>{2, 20}));
}

TEST(Activations, EqualTheirFormulas) {
  const Variable x(Tensor::from<float>({4}, {-2, 0.5, 3, 8}));
  const std::pair<std::shared_ptr<Module>, std::function<double(double)>> curves[] = {
      {std::make_shared<ReLU>(), [](double v) { return std::max(v, 0.0); }},
      {std::make_shared<ReLU6>(), [](double v) { return std::min(std::max(v, 0.0), 6.0); }},
      {std::make_shared<SiLU>(), [](double v) { return v / (1 + std::exp(-v)); }},
      {std::make_shared<Sigmoid>(), [](double v) { return 1 / (1 + std::exp(-v)); }},
      {std::make_shared<Tanh>(), [](double v) { return std::tanh(v); }},
  };
  for (const auto& [module, curve] : curves) {
    std::vector<double> expected;
    for (const double value : to_vector(x.data())) expected.push_back(curve(value));
    expect_near(to_vector(module->forward(x).data()), expected, 1e-6, module->describe());
  }
}

TEST(Dropout, AMaskBelongsToTheSampleAndTheLayer) {
  Dropout dropout(0.25, 3);
  const Variable x(Tensor::full({4, 500}, 1));
  const auto run = [&](Dropout& layer, const std::vector<std::int64_t>& keys) {
    const SampleKeys scope(Tensor::from<std::int64_t>({static_cast<std::int64_t>(keys.size())}, keys));
    const Tensor rows = x.data().narrow(0, 0, static_cast<std::int64_t>(keys.size()));
    return to_vector(layer.forward(Variable(rows)).data());
  };
  const auto whole = run(dropout, {5, 6, 7, 8});
  auto halves = run(dropout, {5, 6});
  const auto second = run(dropout, {7, 8});
  halves.insert(halves.end(), second.begin(), second.end());
  EXPECT_EQ(whole, halves);
  std::size_t dropped = 0;
  for (const double value : whole) {
    EXPECT_TRUE(value == 0 || std::abs(value - 4.0 / 3) < 1e-6) << value;
    dropped += value == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / 2000, 0.25, 0.04);
  Dropout other(0.25, 4);
  EXPECT_NE(run(other, {5, 6, 7, 8}), whole);
  dropout.train(false);
  EXPECT_TRUE(dropout.forward(x).data().shares_storage(x.data()));  // and needs no keys
}

TEST(Dropout, TrainingWithoutTheRightKeysIsAnError) {
  Dropout dropout(0.5, 0);
  const Variable x(Tensor::zeros({4, 3}));
  EXPECT_EQ(
      error_of<std::logic_error>([&] { dropout.forward(x); }),
      "Dropout(0.5): drawing a mask in training needs the samples' keys; put a SampleKeys scope around forward, or "
      "call train(false) for evaluation");
  const SampleKeys outer(Tensor::zeros({4}, tensor::DType::Int64));
  {
    const SampleKeys inner(Tensor::zeros({3}, tensor::DType::Int64));
    EXPECT_EQ(error_of([&] { dropout.forward(x); }), "Dropout(0.5): the input has 4 rows, SampleKeys holds 3 keys");
  }
  EXPECT_EQ(error_of([&] { dropout.forward(x); }), "nothing was thrown");
  EXPECT_EQ(error_of([] { SampleKeys(Tensor::zeros({3})); }),
            "SampleKeys: the keys are float32 (3), expected int64 (N)");
  EXPECT_EQ(error_of([] { Dropout(1, 0); }), "Dropout(1): expected a probability of at least 0 and below 1");
}

TEST(StochasticDepth, DropsWholeSamplesAndScalesTheOthers) {
  StochasticDepth depth(0.2, 1);
  constexpr std::int64_t kRows = 500;
  Tensor keys = Tensor::empty({kRows}, tensor::DType::Int64);
  for (std::int64_t i = 0; i < kRows; ++i) keys.data<std::int64_t>()[i] = 1000 + i;
  const SampleKeys scope(keys);
  const Variable x(Tensor::full({kRows, 2, 2, 3}, 1), true);
  Variable y = depth.forward(x);
  const auto values = to_vector(y.data());
  std::int64_t dropped = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    const double first = values[row * 12];
    EXPECT_TRUE(first == 0 || std::abs(first - 1.25) < 1e-6) << first;
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(values[row * 12 + i], first);
    dropped += first == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / kRows, 0.2, 0.06);
  y.backward(Tensor::full({kRows, 2, 2, 3}, 1));
  EXPECT_EQ(to_vector(x.grad()), values);
  depth.train(false);
  EXPECT_TRUE(depth.forward(x).data().shares_storage(x.data()));
}

// A Sequential fuses; the same layers one by one do not. Names, values and gradients agree.
TEST(Sequential, FusesConvolutionsBatchNormsAndLinearsWithTheirRelu) {
  tensor::Mt19937 generator(5);
  const Modules layers{std::make_shared<Conv2d>(3, 8, ConvOptions{.kernel = 3, .padding = 1}, generator),
                       std::make_shared<ReLU>(),
                       std::make_shared<Conv2d>(8, 6, ConvOptions{.kernel = 3, .bias = false}, generator),
                       std::make_shared<BatchNorm2d>(6),
                       std::make_shared<ReLU>(),
                       std::make_shared<MaxPool2d>(tensor::Pool2dOptions{.kernel = 2}),
                       std::make_shared<Flatten>(),
                       std::make_shared<Linear>(54, 6, generator),
                       std::make_shared<ReLU>(),
                       std::make_shared<Linear>(6, 4, generator)};
  Sequential model(layers);
  const Variable x(keyed_tensor({5, 8, 8, 3}, 1));
  const Tensor seed = keyed_tensor({5, 4}, 2);
  const auto results = [&](const std::function<Variable()>& forward) {
    model.zero_grad();
    Variable y = forward();
    y.backward(seed);
    std::vector<std::vector<double>> all{to_vector(y.data())};
    for (const auto& [name, parameter] : model.named_parameters()) all.push_back(to_vector(parameter.grad()));
    return all;
  };
  const auto fused = results([&] { return model.forward(x); });
  const auto plain = results([&] {
    Variable y = x;
    for (const auto& layer : layers) y = layer->forward(y);
    return y;
  });
  std::vector<std::string> names;
  for (const auto& [name, parameter] : model.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "3.weight", "3.bias", "7.weight",
                                             "7.bias", "9.weight", "9.bias"}));
  ASSERT_EQ(fused.size(), 1 + names.size());
  for (std::size_t i = 0; i < fused.size(); ++i) expect_near(fused[i], plain[i], 1e-4, "result " + std::to_string(i));
}

}  // namespace
}  // namespace tutti::nn
