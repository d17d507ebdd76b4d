#include <gtest/gtest.h>
#include <tutti/nn/activation.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/sequential.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>

#include <cmath>

namespace tutti::nn {
namespace {

using test::error_of;
using test::grid;
using test::input_error;
using test::to_vector;

TEST(Linear, ComputesWeightTimesInputPlusBias) {
  tensor::Mt19937 generator(0);
  Linear layer(3, 2, generator);
  auto parameters = layer.named_parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].first, "weight");
  EXPECT_EQ(parameters[0].second.shape(), (tensor::Shape{2, 3}));
  EXPECT_EQ(parameters[1].first, "bias");
  EXPECT_EQ(parameters[1].second.shape(), (tensor::Shape{2}));
  parameters[0].second.data().copy_from(Tensor::from<float>({2, 3}, {1, 2, 3, -4, 5, -6}));
  parameters[1].second.data().copy_from(Tensor::from<float>({2}, {0.5F, -0.5F}));
  const Variable x(Tensor::from<float>({2, 3}, {1, 1, 1, 2, 0, -1}));
  EXPECT_EQ(to_vector(layer.forward(x).data()), (std::vector<double>{6.5, -5.5, -0.5, -2.5}));
  EXPECT_EQ(to_vector(layer.forward(x, tensor::Activation::Relu).data()), (std::vector<double>{6.5, 0, 0, 0}));
  EXPECT_EQ(layer.describe(), "Linear(3, 2)");
}

TEST(Linear, ErrorsNameTheLayerAndTheShape) {
  tensor::Mt19937 generator(0);
  Linear layer(784, 50, generator);
  EXPECT_EQ(input_error(layer, {64, 12}), "Linear(784, 50): the input has shape (64, 12), expected (N, 784)");
  EXPECT_EQ(input_error(layer, {64, 28, 28}), "Linear(784, 50): the input has shape (64, 28, 28), expected (N, 784)");
  EXPECT_EQ(error_of([&] { Linear(0, 5, generator); }),
            "Linear(0, 5): expected positive numbers of inputs and outputs");
}

TEST(Flatten, KeepsTheBatch) {
  Flatten flatten;
  EXPECT_EQ(flatten.forward(Variable(Tensor::zeros({4, 28, 28, 1}))).shape(), (tensor::Shape{4, 784}));
  EXPECT_EQ(flatten.forward(Variable(Tensor::zeros({4, 6}))).shape(), (tensor::Shape{4, 6}));
}

TEST(Flatten, GivesImagesChannelByChannel) {
  Flatten flatten;
  const Variable x(Tensor::from<float>({1, 1, 3, 2}, {1, 10, 2, 20, 3, 30}), true);
  Variable y = flatten.forward(x);
  EXPECT_EQ(to_vector(y.data()), (std::vector<double>{1, 2, 3, 10, 20, 30}));
  y.backward(Tensor::from<float>({1, 6}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(to_vector(x.grad()), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  const Variable single(Tensor::zeros({2, 1, 1, 5}));
  EXPECT_TRUE(flatten.forward(single).data().shares_storage(single.data()));
}

TEST(Sequential, AReluThatDoesNotFollowALinearStillRuns) {
  Sequential model({std::make_shared<ReLU>(), std::make_shared<Flatten>(), std::make_shared<ReLU>()});
  const Variable x(Tensor::from<float>({1, 4}, {-1, 2, -3, 4}));
  EXPECT_EQ(to_vector(model.forward(x).data()), (std::vector<double>{0, 2, 0, 4}));
  EXPECT_EQ(model.describe(), "Sequential(ReLU(), Flatten(), ReLU())");
  EXPECT_EQ(model.parameter_count(), 0);
}

TEST(Sequential, RefusesANullModule) {
  EXPECT_EQ(error_of([] { Sequential({std::make_shared<ReLU>(), nullptr}); }), "Sequential: module 1 is null");
}

}  // namespace
}  // namespace tutti::nn
