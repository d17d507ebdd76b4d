// Winograd's 3x3 convolutions against the sums that define them, at extents for which they would not be chosen too; and
// that neither threads nor the rest of the batch change a bit.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/cpu/conv_winograd.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support.h"

namespace tutti::tensor::test {
namespace {

struct Case {
  Shape x;  // (N, H, W, C)
  std::int64_t outputs;
  ConvWindow window{};

  Shape w() const { return {outputs, x[3], 3, 3}; }
  Shape y() const { return {x[0], x[1] + 2 * window.padding.height - 2, x[2] + 2 * window.padding.width - 2, outputs}; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {{1, 3, 3, 1}, 1},
      {{1, 1, 1, 1}, 1, {.padding = 1}},
      {{2, 4, 4, 16}, 16, {.padding = 1}},
      {{3, 6, 7, 3}, 5},
      {{2, 5, 9, 17}, 33, {.padding = 1}},
      {{1, 8, 3, 19}, 7, {.padding = 2}},
      {{2, 2, 2, 5}, 6, {.padding = 3}},  // a border that reads nothing
      {{1, 7, 10, 4}, 64, {.padding = {0, 2}}},
      {{1, 6, 5, 130}, 70, {.padding = 1}},  // several sums a product, several panels of columns
      {{49, 4, 5, 20}, 24, {.padding = 1}},  // several groups of squares
  };
  return kCases;
}

double largest(const Tensor& tensor) {
  double most = 0;
  for (const double value : values(tensor)) most = std::max(most, std::abs(value));
  return most;
}

// Rounding errors are counted in parts of the largest result.
void expect_equal(const Tensor& actual, const Tensor& expected) {
  const double error = actual.dtype() == DType::Float32 ? 5e-6 : 1e-14;
  expect_close(actual.to(DType::Float64), expected, 0, error * largest(expected));
}

/// Calls body(case, type) for all of them.
template <typename Body>
void for_all_cases(Body body) {
  for (const Case& c : cases()) {
    for (const DType type : {DType::Float32, DType::Float64}) {
      SCOPED_TRACE(c.x.to_string() + " w " + c.w().to_string() + " " + std::string(name(type)));
      body(c, type);
    }
  }
}

/// The sums of the products of `from` and `w`, either of images for a result or, backward, of a result for images.
std::vector<double> defining_sums(const Case& c, const Tensor& from, const Tensor& w, bool backward) {
  std::vector<double> sums(static_cast<std::size_t>((backward ? c.x : c.y()).numel()), 0);
  const std::vector<double> values_from = values(from);
  const std::vector<double> weights = values(w);
  for_each_product(c.x, c.w(), c.y(), c.window, [&](std::int64_t y, std::int64_t x, std::int64_t weight) {
    const auto to = static_cast<std::size_t>(backward ? x : y);
    const auto at = static_cast<std::size_t>(backward ? y : x);
    sums[to] += values_from[at] * weights[static_cast<std::size_t>(weight)];
  });
  return sums;
}

TEST(Winograd, ForwardIsTheSumThatDefinesIt) {
  for_all_cases([](const Case& c, DType type) {
    const Tensor x = random_tensor(c.x, 1, type);
    const Tensor w = random_tensor(c.w(), 2, type);
    const Tensor bias = random_tensor({c.outputs}, 3, type);
    std::vector<double> sums = defining_sums(c, x, w, false);
    Tensor y = Tensor::full(c.y(), std::nan(""), type);  // is not read
    const cpu::ConvExtents extents(x, w, y, c.window);
    ASSERT_TRUE(cpu::winograd_fits(extents));
    cpu::winograd_conv2d(y, x, w, {}, extents, false);
    expect_equal(y, Tensor::from(c.y(), sums));
    const std::vector<double> biases = values(bias);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = std::max(0., sums[i] + biases[i % biases.size()]);
    cpu::winograd_conv2d(y, x, w, bias, extents, true);
    expect_equal(y, Tensor::from(c.y(), sums));
  });
}

TEST(Winograd, InputGradientIsTheSumThatDefinesIt) {
  for_all_cases([](const Case& c, DType type) {
    const Tensor dy = random_tensor(c.y(), 4, type);
    const Tensor w = random_tensor(c.w(), 5, type);
    std::vector<double> sums = defining_sums(c, dy, w, true);
    Tensor dx = Tensor::full(c.x, std::nan(""), type);
    const cpu::ConvExtents extents(dx, w, dy, c.window);
    cpu::winograd_conv2d_input_gradient(dx, dy, w, extents, false);
    expect_equal(dx, Tensor::from(c.x, sums));
    cpu::winograd_conv2d_input_gradient(dx, dy, w, extents, true);
    for (double& sum : sums) sum *= 2;
    expect_equal(dx, Tensor::from(c.x, sums));
  });
}

bool forward_wins(const Case& c) {
  return cpu::winograd_wins(cpu::ConvExtents(Tensor::empty(c.x), Tensor::empty(c.w()), Tensor::empty(c.y()), c.window));
}

bool backward_wins(const Case& c) {
  return cpu::winograd_wins_backward(
      cpu::ConvExtents(Tensor::empty(c.x), Tensor::empty(c.w()), Tensor::empty(c.y()), c.window));
}

const Case kChosen{{8, 13, 12, 24}, 40, {.padding = 1}};

TEST(Winograd, IsChosenByTheExtentsOfAnImage) {
  for (const std::int64_t batch : {1, 2, 32}) {
    for (const Case& c : {Case{{batch, 16, 16, 64}, 64, {.padding = 1}}, Case{{batch, 8, 8, 128}, 128, {.padding = 1}},
                          Case{{batch, 26, 26, 32}, 64}, kChosen}) {
      EXPECT_TRUE(forward_wins(c)) << c.x.to_string();
      EXPECT_TRUE(backward_wins(c)) << c.x.to_string();
    }
    for (const Case& c :
         {Case{{batch, 7, 7, 64}, 64, {.padding = 1}}, Case{{batch, 2, 2, 512}, 512, {.padding = 1}},
          Case{{batch, 8, 8, 256}, 256, {.padding = 1}}, Case{{batch, 28, 28, 1}, 32}, Case{{batch, 28, 28, 32}, 3}}) {
      EXPECT_FALSE(forward_wins(c)) << c.x.to_string();
      EXPECT_FALSE(backward_wins(c)) << c.x.to_string();
    }
  }
  const Tensor x = Tensor::empty({1, 28, 28, 64});
  const Tensor w = Tensor::empty({64, 64, 3, 3});
  const auto fits = [&](const Tensor& weights, const Shape& y, const ConvWindow& window) {
    return cpu::winograd_fits(cpu::ConvExtents(x, weights, Tensor::empty(y), window));
  };
  EXPECT_TRUE(fits(w, {1, 28, 28, 64}, {.padding = 1}));
  EXPECT_FALSE(fits(w, {1, 14, 14, 64}, {.stride = 2, .padding = 1}));
  EXPECT_FALSE(fits(w, {1, 26, 26, 64}, {.padding = 1, .dilation = 2}));
  EXPECT_FALSE(fits(Tensor::empty({64, 32, 3, 3}), {1, 28, 28, 64}, {.padding = 1, .groups = 2}));
  EXPECT_FALSE(fits(Tensor::empty({64, 64, 3, 5}), {1, 26, 24, 64}, {}));
}

TEST(Winograd, GradientsAgreeWithCentralDifferences) {
  const Case c{{1, 8, 8, 16}, 16, {.padding = 1}};
  ASSERT_TRUE(forward_wins(c) && backward_wins(c));
  gradcheck([](const std::vector<Variable>& in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); },
            {random_tensor(c.x, 6), random_tensor(c.w(), 7), random_tensor({c.outputs}, 8)});
}

// Result and gradient of the input.
std::vector<Tensor> run(const Tensor& x, const Tensor& w, const Tensor& dy, int threads) {
  set_num_threads(threads);
  Variable input(x.clone(), true);
  const Variable y = conv2d(input, Variable(w), {}, {.padding = 1});
  sum(mul(y, Variable(dy))).backward();
  set_num_threads(1);
  return {y.data(), input.grad()};
}

void expect_same_bits(const std::vector<Tensor>& some, const std::vector<Tensor>& all, std::int64_t image) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor part = all[i].narrow(0, image, some[i].shape()[0]).clone();
    EXPECT_EQ(std::memcmp(some[i].raw(), part.raw(), part.nbytes()), 0) << "result " << i << ", image " << image;
  }
}

TEST(Winograd, NeitherTheThreadsNorTheRestOfTheBatchChangeABit) {
  ASSERT_TRUE(forward_wins(kChosen) && backward_wins(kChosen));
  const Tensor x = random_tensor(kChosen.x, 9, DType::Float32);
  const Tensor w = random_tensor(kChosen.w(), 10, DType::Float32);
  const Tensor dy = random_tensor(kChosen.y(), 11, DType::Float32);
  const std::vector<Tensor> all = run(x, w, dy, 1);
  for (const int threads : {2, 3, 7}) expect_same_bits(run(x, w, dy, threads), all, 0);
  for (std::int64_t image = 0; image < kChosen.x[0]; ++image) {
    expect_same_bits(run(x.narrow(0, image, 1), w, dy.narrow(0, image, 1), 1), all, image);
  }
  expect_same_bits(run(x.narrow(0, 3, 5), w, dy.narrow(0, 3, 5), 2), all, 3);
}

TEST(Winograd, NotANumberStaysInItsSquareAndPassesRelu) {
  const Case c{{2, 8, 8, 16}, 16, {.padding = 1}};
  Tensor x = random_tensor(c.x, 12, DType::Float32);
  x.data<float>()[(3 * 8 + 2) * 16] = std::numeric_limits<float>::quiet_NaN();  // of pixel (3, 2): the border
  const Tensor w = random_tensor(c.w(), 13, DType::Float32);
  Tensor y = Tensor::empty(c.y());
  cpu::winograd_conv2d(y, x, w, {}, cpu::ConvExtents(x, w, y, c.window), true);
  const std::vector<double> found = values(y);
  for (std::int64_t pixel = 0; pixel < 2 * 8 * 8; ++pixel) {
    const bool window = pixel / 8 >= 2 && pixel / 8 <= 4 && pixel % 8 >= 1 && pixel % 8 <= 3;
    const bool square = pixel / 8 < 8 && pixel % 8 < 4;  // two squares read it
    const bool nan = std::isnan(found[static_cast<std::size_t>(pixel * 16)]);
    if (window) {
      EXPECT_TRUE(nan) << pixel;
    }
    if (!square) {
      EXPECT_FALSE(nan) << pixel;
    }
  }
}

// The bound under "Limits" in tensor/README.md; sums of 16 products here.
TEST(Winograd, AHugePixelReachesTheOthersOfItsSquaresByRoundingOnly) {
  const Case c{{1, 8, 8, 16}, 16, {.padding = 1}};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const float huge : {1e6F, 1e30F}) {
      Tensor x = random_tensor(c.x, seed, DType::Float32);
      const Tensor w = random_tensor(c.w(), seed + 100, DType::Float32);
      const auto results = [&] {
        Tensor y = Tensor::empty(c.y()), dx = Tensor::empty(c.x);
        cpu::winograd_conv2d(y, x, w, {}, cpu::ConvExtents(x, w, y, c.window), false);
        cpu::winograd_conv2d_input_gradient(dx, x, w, cpu::ConvExtents(dx, w, x, c.window), false);
        return std::array{values(y), values(dx)};
      };
      const auto without = results();
      x.data<float>()[(3 * 8 + 2) * 16] = huge;  // of pixel (3, 2): the border of two squares
      const auto with = results();
      for (std::size_t at = 0; at < 8 * 8 * 16; ++at) {
        const std::size_t row = at / 16 / 8, column = at / 16 % 8;
        const bool window = row >= 2 && row <= 4 && column >= 1 && column <= 3;
        const double bound = column < 4 ? 4e-6 * huge * largest(w) : 0;
        for (const int way : {0, 1}) {
          if (!window) {
            EXPECT_NEAR(with[way][at], without[way][at], bound) << "value " << at << ", seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::tensor::test
