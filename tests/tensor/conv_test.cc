// conv2d against the sum that defines it, its gradients against central differences and against the defining sums.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/thread_pool.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "support.h"

namespace tutti::tensor {
namespace {

using test::expect_close;
using test::placed;
using test::random_tensor;

struct Case {
  Shape x;  // (N, H, W, C)
  Shape w;  // (O, C / groups, KH, KW)
  Conv2dOptions options{};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{2, 5, 4, 3}, {2, 3, 3, 3}},
      {{2, 5, 4, 3}, {5, 3, 3, 3}, {.padding = 1}},
      {{3, 6, 7, 2}, {4, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
      {{2, 9, 8, 3}, {7, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {{1, 9, 9, 2}, {3, 2, 3, 3}, {.stride = 3, .padding = 2, .dilation = 2}},
      {{2, 8, 8, 2}, {3, 2, 1, 1}, {.stride = 2}},   // some inputs are never read
      {{2, 3, 3, 2}, {3, 2, 2, 2}, {.stride = 3}},   // nor are the last row and column
      {{2, 2, 2, 5}, {6, 5, 3, 3}, {.padding = 1}},  // more padding than image
      {{2, 3, 2, 4}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {{2, 5, 5, 6}, {6, 1, 3, 3}, {.padding = 1, .groups = 6}},  // depthwise
      {{2, 6, 5, 3}, {3, 1, 5, 3}, {.stride = 2, .padding = {2, 1}, .groups = 3}},
      {{2, 4, 4, 3}, {6, 1, 3, 3}, {.padding = 1, .groups = 3}},  // depthwise with two filters a channel
      {{2, 4, 4, 19}, {21, 19, 3, 3}, {.padding = 1}},            // no extent a whole number of vectors
      {{1, 3, 3, 2}, {2, 2, 7, 7}, {.padding = 3}},
  };
  return kCases;
}

std::string to_string(const Case& c) {
  return "x " + c.x.to_string() + " w " + c.w.to_string() + " stride " + std::to_string(c.options.stride.height) +
         " groups " + std::to_string(c.options.groups);
}

TEST(Conv2d, IsTheSumThatDefinesIt) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = random_tensor(c.x, 1);
    const Tensor w = random_tensor(c.w, 2);
    const Tensor b = random_tensor({c.w[0]}, 3);
    const Tensor y = conv2d(Variable(placed(x)), Variable(placed(w)), Variable(placed(b)), c.options).data();
    Tensor expected = Tensor::zeros(y.shape(), DType::Float64);
    for (std::int64_t i = 0; i < y.numel(); ++i) expected.data<double>()[i] = b.data<double>()[i % y.shape()[3]];
    test::for_each_product(c.x, c.w, y.shape(), c.options,
                           [&](std::int64_t to, std::int64_t from, std::int64_t weight) {
                             expected.data<double>()[to] += x.data<double>()[from] * w.data<double>()[weight];
                           });
    expect_close(y, expected, 1e-12, 1e-12);
  }
}

TEST(Conv2d, GradientsAgreeWithCentralDifferences) {
  for (const Case& c : cases()) {
    if (c.x.numel() + c.w.numel() > 1500) continue;
    SCOPED_TRACE(to_string(c));
    test::gradcheck([&](const std::vector<Variable>& in) { return conv2d(in[0], in[1], in[2], c.options); },
                    {random_tensor(c.x, 4), random_tensor(c.w, 5), random_tensor({c.w[0]}, 6)});
  }
}

TEST(Conv2d, GradientsAreTheSumsThatDefineThem) {
  std::vector<Case> all = cases();
  all.push_back({{3, 11, 10, 35}, {70, 35, 3, 3}, {.stride = 2, .padding = 1}});  // several panels, a piece not full
  all.push_back({{2, 13, 12, 17}, {35, 17, 3, 3}, {.padding = 1}});               // the CPU has another way for these
  all.push_back({{2, 30, 31, 3}, {33, 3, 7, 7}, {.stride = 2, .padding = 3}});    // few channels, several pieces
  all.push_back({{37, 10, 10, 2}, {3, 2, 3, 3}, {.padding = 1}});                 // images enough for several sums
  all.push_back({{5, 36, 36, 1}, {32, 1, 3, 3}, {.padding = 1}});                 // pieces of an image, whole panels
  for (const Case& c : all) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = random_tensor(c.x, 7);
    const Tensor w = random_tensor(c.w, 8);
    Variable input(placed(x), true);
    Variable weight(placed(w), true);
    const Variable y = conv2d(input, weight, {}, c.options);
    const Tensor dy = random_tensor(y.shape(), 9);
    sum(mul(y, Variable(placed(dy)))).backward();
    Tensor dx = Tensor::zeros(x.shape(), DType::Float64);
    Tensor dw = Tensor::zeros(w.shape(), DType::Float64);
    test::for_each_product(c.x, c.w, y.shape(), c.options, [&](std::int64_t to, std::int64_t from, std::int64_t at) {
      dx.data<double>()[from] += dy.data<double>()[to] * w.data<double>()[at];
      dw.data<double>()[at] += dy.data<double>()[to] * x.data<double>()[from];
    });
    expect_close(input.grad(), dx, 1e-11, 1e-11);
    expect_close(weight.grad(), dw, 1e-11, 1e-11);
  }
}

TEST(Conv2d, ThreadsChangeNoBitOfTheGradientOfTheWeights) {
  for (const Case& c :
       {Case{{37, 10, 10, 2}, {3, 2, 3, 3}, {.padding = 1}}, Case{{5, 36, 36, 20}, {64, 20, 3, 3}, {.padding = 1}},
        Case{{3, 30, 31, 3}, {33, 3, 7, 7}, {.stride = 2, .padding = 3}}, Case{{9, 6, 6, 180}, {180, 180, 3, 3}, {}}}) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = random_tensor(c.x, 7, DType::Float32);
    const Tensor w = random_tensor(c.w, 8, DType::Float32);
    const auto gradient = [&](int threads) {
      set_num_threads(threads);
      Variable weight(w, true);
      sum(conv2d(Variable(x), weight, {}, c.options)).backward();
      set_num_threads(1);
      return test::values(weight.grad());
    };
    const auto alone = gradient(1);
    for (const int threads : {2, 3, 7}) EXPECT_EQ(gradient(threads), alone) << threads << " threads";
  }
}

TEST(Conv2d, OneInputUsedTwiceGetsBothGradients) {
  test::gradcheck(
      [](const std::vector<Variable>& in) {
        return add(conv2d(in[0], in[1], {}, {.padding = 1}), conv2d(in[0], in[1], {}, {.padding = 1}));
      },
      {random_tensor({2, 3, 4, 2}, 10), random_tensor({2, 2, 3, 3}, 11)});
}

TEST(Conv2d, ReluInTheSamePassIsReluAfterwards) {
  for (const std::int64_t groups : {1, 4}) {
    const Tensor x = random_tensor({2, 5, 5, 4}, 12);
    const Tensor w = random_tensor({4, 4 / groups, 3, 3}, 13);
    const Tensor b = random_tensor({4}, 14);
    const auto gradients = [&](bool fused) {
      std::vector<Variable> in{Variable(placed(x.clone()), true), Variable(placed(w.clone()), true),
                               Variable(placed(b.clone()), true)};
      Conv2dOptions options{.padding = 1, .groups = groups};
      if (fused) options.activation = Activation::Relu;
      Variable y = conv2d(in[0], in[1], in[2], options);
      if (!fused) y = relu(y);
      sum(mul(y, y)).backward();
      return std::vector<Tensor>{y.data(), in[0].grad(), in[1].grad(), in[2].grad()};
    };
    const std::vector<Tensor> fused = gradients(true);
    const std::vector<Tensor> apart = gradients(false);
    for (std::size_t i = 0; i < fused.size(); ++i) expect_close(fused[i], apart[i], 0, 0);
  }
}

TEST(Conv2d, NotANumberAndEmptyBatches) {
  Tensor x = Tensor::full({1, 3, 3, 1}, 1);
  x.data<float>()[4] = std::nanf("");
  const Tensor w = placed(Tensor::full({1, 1, 2, 2}, 1));
  const Tensor y = conv2d(Variable(placed(x)), Variable(w), {}, {.activation = Activation::Relu}).data();
  for (const double value : test::values(y)) EXPECT_TRUE(std::isnan(value));

  Variable none(placed(Tensor::empty({0, 3, 3, 1})), true);
  Variable weight(w, true);
  const Variable nothing = conv2d(none, weight, {});
  EXPECT_EQ(nothing.shape(), (Shape{0, 2, 2, 1}));
  sum(nothing).backward();
  expect_close(weight.grad(), Tensor::zeros({1, 1, 2, 2}), 0, 0);
}

void expect_refused(const Case& c, const std::string& part) {
  const std::string text =
      test::text_of([&] { conv2d(Variable(Tensor::zeros(c.x)), Variable(Tensor::zeros(c.w)), {}, c.options); });
  EXPECT_NE(text.find(part), std::string::npos) << to_string(c) << ": " << text;
}

TEST(Conv2d, RefusesWhatDoesNotFitAndSaysWhy) {
  expect_refused({{2, 5, 5}, {1, 5, 3, 3}}, "(2, 5, 5)");
  expect_refused({{1, 5, 5, 3}, {4, 2, 3, 3}}, "(4, 2, 3, 3)");
  expect_refused({{1, 5, 5, 3}, {4, 1, 3, 3}, {.groups = 3}}, "groups = 3");
  expect_refused({{1, 5, 5, 3}, {3, 3, 3, 3}, {.groups = 0}}, "groups = 0");
  expect_refused({{1, 2, 5, 3}, {4, 3, 3, 3}}, "larger than the image");
  expect_refused({{1, 5, 5, 3}, {4, 3, 3, 3}, {.stride = {1, 0}}}, "stride is 1 x 0");
  expect_refused({{1, 5, 5, 3}, {4, 3, 3, 3}, {.padding = -1}}, "padding is -1 x -1");
  expect_refused({{1, 5, 5, 3}, {4, 3, 3, 3}, {.dilation = 0}}, "dilation is 0 x 0");
  EXPECT_THROW(conv2d(Variable(Tensor::zeros({1, 2, 2, 1})), Variable(Tensor::zeros({1, 1, 1, 1})),
                      Variable(Tensor::zeros({2}))),
               std::invalid_argument);
}

}  // namespace
}  // namespace tutti::tensor
