// Against PyTorch's results for the same inputs.

#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/random.h>

#include <functional>
#include <utility>

#include "support.h"

namespace tutti::tensor::test {
namespace {

constexpr double kRelative = 1e-12;
constexpr double kAbsolute = 1e-13;

TEST(Golden, TwoLayersWithCrossEntropy) {
  std::map<std::string, Tensor> golden = read_golden("two_layers.txt");
  std::map<std::string, Variable> leaves;
  for (const char* name : {"x", "w1", "b1", "w2", "b2"}) leaves[name] = Variable(golden.at(name), true);
  const Variable hidden = linear(leaves["x"], leaves["w1"], leaves["b1"], Activation::Relu);
  const Variable logits = linear(hidden, leaves["w2"], leaves["b2"]);
  Variable loss = cross_entropy(logits, golden.at("targets").to(DType::Int64));
  loss.backward();
  expect_close(hidden.data(), golden.at("hidden"), kRelative, kAbsolute);
  expect_close(logits.data(), golden.at("logits"), kRelative, kAbsolute);
  expect_close(loss.data(), golden.at("loss"), kRelative, kAbsolute);
  for (auto& [name, leaf] : leaves) {
    SCOPED_TRACE("d" + name);
    expect_close(leaf.grad(), golden.at("d" + name), kRelative, kAbsolute);
  }
}

TEST(Golden, Losses) {
  std::map<std::string, Tensor> golden = read_golden("losses.txt");
  const Tensor classes = golden.at("classes").to(DType::Int64);
  for (const auto& [reduction, suffix] : {std::pair{Reduction::Mean, "_mean"}, std::pair{Reduction::Sum, "_sum"}}) {
    for (const std::string name : {"cross_entropy", "mse_loss"}) {
      SCOPED_TRACE(name + suffix);
      Variable logits(golden.at("logits"), true);
      Variable loss = name == "mse_loss" ? mse_loss(logits, golden.at("target"), reduction)
                                         : cross_entropy(logits, classes, reduction);
      loss.backward();
      expect_close(loss.data(), golden.at(name + suffix), kRelative, kAbsolute);
      expect_close(logits.grad(), golden.at("d_" + name + suffix), kRelative, kAbsolute);
    }
  }
  const Variable logits(golden.at("logits"));
  expect_close(log_softmax(logits).data(), golden.at("log_softmax"), kRelative, kAbsolute);
}

TEST(Golden, UniformIsBitEqual) {
  std::size_t cases = 0;
  for (const auto& [name, tensor] : read_golden("uniform.txt")) {
    SCOPED_TRACE(name);
    const std::vector<double> all = values(tensor);
    Mt19937 generator(static_cast<std::uint64_t>(all[0]));
    const auto low = static_cast<float>(all[1]);
    const auto high = static_cast<float>(all[2]);
    for (std::size_t i = 3; i < all.size(); ++i) {
      ASSERT_EQ(static_cast<double>(generator.uniform(low, high)), all[i]) << "draw " << i - 3;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 4u);
}

// The image operations, activations and losses against PyTorch's results for the same inputs.

constexpr double kImageRelative = 1e-11;
constexpr double kImageAbsolute = 1e-12;

using Goldens = std::map<std::string, Tensor>;
using Function1 = std::function<Variable(const Variable&)>;

// y and dx of one operation over the file's x.
void expect_golden(const Goldens& golden, const std::string& name, const Function1& f) {
  SCOPED_TRACE(name);
  Variable x(golden.at("x"), true);
  Variable y = f(x);
  expect_close(y.data(), golden.at(name + ".y"), kImageRelative, kImageAbsolute);
  y.backward(golden.at(name + ".dy"));
  expect_close(x.grad(), golden.at(name + ".dx"), kImageRelative, kImageAbsolute);
}

TEST(ImageGolden, Pooling) {
  const Goldens golden = read_golden("pooling.txt");
  const std::vector<std::pair<std::string, Pool2dOptions>> largest = {
      {"max_k3_s2_p1", {.kernel = 3, .stride = 2, .padding = 1}},
      {"max_k2_s3_p1_ceil", {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}},
      {"max_k23_s11", {.kernel = {2, 3}, .stride = 1}}};
  for (const auto& test : largest) {
    expect_golden(golden, test.first, [&](const Variable& x) { return max_pool2d(x, test.second); });
  }
  const std::vector<std::pair<std::string, Pool2dOptions>> means = {
      {"avg_k3_s2_p1", {.kernel = 3, .stride = 2, .padding = 1}},
      {"avg_k3_s2_p1_inside", {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}},
      {"avg_k2_s3_p1_ceil", {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}},
      {"avg_k4_s3_p2_ceil", {.kernel = 4, .stride = 3, .padding = 2, .ceil_mode = true}}};
  for (const auto& test : means) {
    expect_golden(golden, test.first, [&](const Variable& x) { return avg_pool2d(x, test.second); });
  }
  expect_golden(golden, "adaptive_1_1", [](const Variable& x) { return adaptive_avg_pool2d(x, 1); });
  expect_golden(golden, "adaptive_3_4", [](const Variable& x) { return adaptive_avg_pool2d(x, {3, 4}); });
  expect_golden(golden, "adaptive_9_5", [](const Variable& x) { return adaptive_avg_pool2d(x, {9, 5}); });
}

void expect_batch_norm(const Goldens& golden, const BatchNormOptions& options, bool add) {
  const bool relu = options.activation == Activation::Relu;
  const std::string name = std::string("train") + (options.training ? "1" : "0") + "_relu" + (relu ? "1" : "0") +
                           "_add" + (add ? "1" : "0") + ".";
  SCOPED_TRACE(name);
  Variable x(golden.at("x"), true);
  Variable weight(golden.at("weight"), true);
  Variable bias(golden.at("bias"), true);
  Variable residual(golden.at("residual"), true);
  Tensor mean = golden.at("mean").clone();
  Tensor variance = golden.at("variance").clone();
  Variable y = batch_norm(x, weight, bias, mean, variance, options, add ? residual : Variable());
  expect_close(y.data(), golden.at(name + "y"), kImageRelative, kImageAbsolute);
  expect_close(mean, golden.at(name + "mean"), kImageRelative, kImageAbsolute);
  expect_close(variance, golden.at(name + "variance"), kImageRelative, kImageAbsolute);
  y.backward(golden.at(name + "dy"));
  expect_close(x.grad(), golden.at(name + "dx"), kImageRelative, kImageAbsolute);
  expect_close(weight.grad(), golden.at(name + "dw"), kImageRelative, kImageAbsolute);
  expect_close(bias.grad(), golden.at(name + "db"), kImageRelative, kImageAbsolute);
  if (add) expect_close(residual.grad(), golden.at(name + "dr"), kImageRelative, kImageAbsolute);
}

TEST(ImageGolden, BatchNorm) {
  const Goldens golden = read_golden("batch_norm.txt");
  for (const bool training : {true, false}) {
    for (const Activation activation : {Activation::None, Activation::Relu}) {
      const BatchNormOptions options{.training = training, .momentum = 0.3, .epsilon = 1e-3, .activation = activation};
      expect_batch_norm(golden, options, false);
      expect_batch_norm(golden, options, true);
    }
  }
}

TEST(ImageGolden, ElementwiseAndLosses) {
  const Goldens golden = read_golden("elementwise.txt");
  const Tensor targets = golden.at("targets").to(DType::Int64);
  expect_golden(golden, "relu6", relu6);
  expect_golden(golden, "silu", silu);
  expect_golden(golden, "sigmoid", sigmoid);
  expect_golden(golden, "tanh", tensor::tanh);
  expect_golden(golden, "softmax", softmax);
  expect_golden(golden, "nll_mean", [&](const Variable& x) { return nll_loss(x, targets); });
  expect_golden(golden, "nll_sum", [&](const Variable& x) { return nll_loss(x, targets, Reduction::Sum); });
  expect_golden(golden, "smooth_mean",
                [&](const Variable& x) { return cross_entropy(x, targets, Reduction::Mean, 0.1); });
  expect_golden(golden, "smooth_sum",
                [&](const Variable& x) { return cross_entropy(x, targets, Reduction::Sum, 0.7); });
  expect_golden(golden, "mean_rows", [](const Variable& x) { return mean(x, {1}); });
  expect_golden(golden, "sum_columns", [](const Variable& x) { return sum(x, {0}, true); });
}

}  // namespace
}  // namespace tutti::tensor::test
