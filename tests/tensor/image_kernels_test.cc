// Batch norm, pooling, dropout and the activations at their edges: threads, large means, NaN, empty batches, options.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/keyed_stream.h>
#include <tutti/tensor/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "support.h"

namespace tutti::tensor::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Variable normalise(const std::vector<Variable>& in, BatchNormOptions options = {}) {
  const Shape& channels = in[1].shape();
  const DType type = in[0].data().dtype();
  const Device device = in[0].data().device();
  return batch_norm(in[0], in[1], in[2], Tensor::zeros(channels, type, device), Tensor::full(channels, 1, type, device),
                    options, in.size() > 3 ? in[3] : Variable());
}

TEST(ImageKernels, ColumnSumsOfManyRows) {
  for (const Shape& shape :
       {Shape{0, 3}, Shape{1, 1}, Shape{7, 50}, Shape{5000, 10}, Shape{40000, 3}, Shape{67, 2048}}) {
    SCOPED_TRACE(shape.to_string());
    const Tensor x = random_tensor(shape, 1, DType::Float32);
    std::vector<double> expected(static_cast<std::size_t>(shape[1]), 2.0);
    const std::vector<double> all = values(x);
    for (std::size_t i = 0; i < all.size(); ++i) expected[i % expected.size()] += all[i];
    Tensor sums = placed(Tensor::full({shape[1]}, 2));
    kernels(test_device()).column_sum(sums, placed(x), true);
    expect_close(sums, Tensor::from({shape[1]}, expected), 1e-6, 1e-5);
    Tensor again = placed(Tensor::full({shape[1]}, kNan));
    kernels(test_device()).column_sum(again, placed(x), false);
    for (double& value : expected) value -= 2;
    expect_close(again, Tensor::from({shape[1]}, expected), 1e-6, 1e-5);
  }
}

// The plainest two-pass formula in float64.
TEST(BatchNorm, StatisticsOfEveryShapeAndOfLargeMeans) {
  for (const Shape& shape : {Shape{2, 1}, Shape{3, 5}, Shape{17, 3}, Shape{16, 64}, Shape{65, 300}, Shape{10007, 3},
                             Shape{4099, 19}, Shape{129, 2048}}) {
    for (const double mean : {0.0, 1000.0}) {
      SCOPED_TRACE(shape.to_string() + " around " + std::to_string(mean));
      Tensor x = random_tensor(shape, 7, DType::Float32);
      for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] += static_cast<float>(mean);
      Tensor actual_mean = placed(Tensor::empty({shape[1]}));
      Tensor actual_variance = placed(Tensor::empty({shape[1]}));
      kernels(test_device()).batch_norm_statistics(actual_mean, actual_variance, placed(x));
      const std::vector<double> means = values(actual_mean);
      const std::vector<double> variances = values(actual_variance);
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        double sum = 0;
        double squares = 0;
        const auto value = [&](std::int64_t r) { return static_cast<double>(x.data<float>()[r * shape[1] + c]); };
        for (std::int64_t r = 0; r < shape[0]; ++r) sum += value(r);
        sum /= static_cast<double>(shape[0]);
        for (std::int64_t r = 0; r < shape[0]; ++r) squares += (value(r) - sum) * (value(r) - sum);
        const double variance = squares / static_cast<double>(shape[0]);
        ASSERT_NEAR(means[static_cast<std::size_t>(c)], sum, 1e-6 * (1 + mean / 10));
        ASSERT_NEAR(variances[static_cast<std::size_t>(c)], variance, 1e-5 * variance + 1e-9);
      }
    }
  }
}

TEST(BatchNorm, UpdatesRunningStatisticsInTrainingOnly) {
  const Variable x(placed(Tensor::from<double>({4, 1}, {1, 2, 3, 6})));
  const Variable one(placed(Tensor::full({1}, 1, DType::Float64)));
  Tensor mean = placed(Tensor::full({1}, 10, DType::Float64));
  Tensor variance = placed(Tensor::full({1}, 20, DType::Float64));
  batch_norm(x, one, one, mean, variance, {.training = false});
  EXPECT_EQ(values(mean), std::vector<double>{10});
  batch_norm(x, one, one, mean, variance, {.momentum = 0.25});
  EXPECT_DOUBLE_EQ(mean.item(), 0.75 * 10 + 0.25 * 3);
  EXPECT_DOUBLE_EQ(variance.item(), 0.75 * 20 + 0.25 * 14 / 3);
  // An empty batch has no statistics; it changes nothing and is no error.
  Variable w(one.data().clone(), true);
  Variable empty =
      batch_norm(Variable(placed(Tensor::zeros({0, 3, 3, 1}, DType::Float64))), w, one, mean, variance, {});
  EXPECT_EQ(empty.shape(), (Shape{0, 3, 3, 1}));
  EXPECT_DOUBLE_EQ(mean.item(), 0.75 * 10 + 0.25 * 3);
  sum(empty).backward();
  EXPECT_EQ(w.grad().item(), 0);
}

TEST(BatchNorm, NanIsNotLost) {
  Tensor x = random_tensor({40, 3}, 1, DType::Float32);
  x.data<float>()[3 * 11 + 1] = static_cast<float>(kNan);
  const Variable c(placed(Tensor::full({3}, 1)));
  const std::vector<double> y = values(normalise({Variable(placed(x)), c, c}, {.activation = Activation::Relu}).data());
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_FALSE(std::isnan(y[0]));
}

TEST(BatchNorm, Refusals) {
  const auto batch = [](const Shape& x, const Shape& weight, DType type = DType::Float32) {
    const Variable w(Tensor::zeros(weight, type));
    return text_of([&] { normalise({Variable(Tensor::zeros(x)), w, w}); });
  };
  EXPECT_EQ(batch({1, 1, 1, 4}, {4}),
            "batch_norm: float32 (1, 1, 1, 4) has one value for each channel, which has no variance to train with; use "
            "a larger batch or evaluation mode");
  EXPECT_EQ(batch({2, 4}, {3}),
            "batch_norm: the weight is float32 (3), but x is float32 (2, 4): one number for each of the 4 channels is "
            "needed");
  EXPECT_EQ(batch({2, 4}, {4}, DType::Float64),
            "batch_norm: float32 (2, 4) and float64 (4) differ in type; convert one with to()");
  EXPECT_EQ(batch({}, {4}), "batch_norm: shape () has no channels");
}

TEST(MaxPool, TheFirstOfEqualsGetsTheGradientAndNanWins) {
  Variable x(placed(Tensor::from<float>({1, 2, 3, 1}, {1, 5, 5, 5, 0, 5})), true);
  sum(max_pool2d(x, {.kernel = {2, 3}})).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{0, 1, 0, 0, 0, 0}));
  for (std::int64_t i = 0; i < 6; ++i) {
    Tensor holed = Tensor::full({1, 2, 3, 1}, 3);
    holed.data<float>()[i] = static_cast<float>(kNan);
    EXPECT_TRUE(std::isnan(max_pool2d(Variable(placed(holed)), {.kernel = {2, 3}}).data().item())) << i;
  }
  const Tensor low = Tensor::full({1, 2, 2, 1}, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values(max_pool2d(Variable(placed(low)), {.kernel = 2, .padding = 1}).data())[0],
            -std::numeric_limits<double>::infinity());
}

// More positions than a byte can number.
TEST(MaxPool, LargeWindows) {
  for (const std::int64_t extent : {16, 17, 40}) {
    Tensor image = random_tensor({1, extent, extent, 1}, 3, DType::Float32);
    const std::int64_t last = extent * extent - 1;
    image.data<float>()[last] = 2;
    Variable x(placed(image), true);
    sum(max_pool2d(x, {.kernel = extent})).backward();
    EXPECT_EQ(values(x.grad())[static_cast<std::size_t>(last)], 1);
    EXPECT_EQ(sum(Variable(x.grad())).data().item(), 1);
  }
}

TEST(Pooling, OutputExtentsAndDivisors) {
  const Variable x(placed(Tensor::full({1, 5, 7, 1}, 6)));
  EXPECT_EQ(max_pool2d(x, {.kernel = 2}).shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(max_pool2d(x, {.kernel = 2, .ceil_mode = true}).shape(), (Shape{1, 3, 4, 1}));
  // The last window of ceil mode may not begin in the padding behind the image.
  EXPECT_EQ(max_pool2d(x, {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}).shape(), (Shape{1, 2, 3, 1}));
  const Variable padded = avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  EXPECT_NEAR(values(padded.data())[0], 6.0 * 4 / 9, 1e-6);
  const Variable inside = avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false});
  EXPECT_NEAR(values(inside.data())[0], 6.0, 1e-6);
  EXPECT_EQ(max_pool2d(Variable(placed(Tensor::zeros({0, 4, 4, 3}))), {.kernel = 2}).shape(), (Shape{0, 2, 2, 3}));
}

// A stride longer than the kernel leaves pixels that no window sees; their gradient is 0, whatever was in memory.
TEST(Pooling, PixelsBetweenWindows) {
  for (const bool largest : {true, false}) {
    Variable x(placed(Tensor::full({1, 5, 5, 1}, 1)), true);
    x.set_grad_memory(placed(Tensor::full({1, 5, 5, 1}, kNan)));
    const Pool2dOptions options{.kernel = 1, .stride = 3};
    Variable y = sum(largest ? max_pool2d(x, options) : avg_pool2d(x, options));
    y.backward();
    std::vector<double> expected(25, 0);
    for (const std::size_t pixel : {0u, 3u, 15u, 18u}) expected[pixel] = 1;
    EXPECT_EQ(values(x.grad()), expected);
  }
}

TEST(Pooling, Refusals) {
  const Variable x(Tensor::zeros({2, 4, 5, 3}));
  EXPECT_EQ(text_of([&] {
              max_pool2d(x, {.kernel = {5, 2}});
            }),
            "max_pool2d: x is float32 (2, 4, 5, 3); kernel (5, 2) is larger than the image (4, 5) with padding (0, 0) "
            "on each side");
  EXPECT_EQ(
      text_of([&] { avg_pool2d(x, {.kernel = 3, .padding = 2}); }),
      "avg_pool2d: x is float32 (2, 4, 5, 3); padding (2, 2) must be from 0 to half of the kernel, which is (3, 3)");
  EXPECT_EQ(text_of([&] { max_pool2d(x, {.kernel = 0}); }),
            "max_pool2d: x is float32 (2, 4, 5, 3); kernel (0, 0) and stride (0, 0) must be at least 1");
  EXPECT_EQ(text_of([&] {
              adaptive_avg_pool2d(x, {0, 1});
            }),
            "adaptive_avg_pool2d: x is float32 (2, 4, 5, 3); the image and the output (0, 1) must not be empty");
  EXPECT_EQ(text_of([] {
              max_pool2d(Variable(Tensor::zeros({2, 4, 5})), {.kernel = 2});
            }),
            "max_pool2d: needs 4 dimensions, got float32 (2, 4, 5)");
}

// Every order of the axes, at extents around the vector's length, of views too, against reading element by element.
TEST(Copy, AnyOrderOfAxes) {
  const std::vector<Shape> shapes = {{3, 17, 5, 16}, {2, 1, 33, 7}, {1, 64, 1, 3}, {2, 3, 2, 40}, {16, 1, 1, 16}};
  for (const Shape& shape : shapes) {
    std::vector<int> axes{0, 1, 2, 3};
    do {
      for (const DType type : {DType::Float32, DType::Float64, DType::Int64}) {
        const Tensor whole = random_tensor({shape[0], shape[1], shape[2], shape[3] + 2}, 3, DType::Float64);
        Tensor scaled = Tensor::empty(whole.shape(), DType::Float64);
        kernels({}).scale(scaled, whole, 1e6, false);
        const Tensor part = placed(scaled.to(type)).narrow(3, 1, shape[3]);
        const NoGrad no_grad;
        const Tensor turned = permute(Variable(part), axes).data();
        const std::vector<double> packed = values(turned.contiguous());
        const std::vector<double> all = values(part);
        std::vector<std::int64_t> steps{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
        std::size_t next = 0;
        for (std::int64_t i = 0; i < turned.numel(); ++i) {
          std::int64_t rest = i;
          std::int64_t at = 0;
          for (int axis = 3; axis >= 0; --axis) {
            at += rest % turned.shape()[axis] * steps[static_cast<std::size_t>(axes[static_cast<std::size_t>(axis)])];
            rest /= turned.shape()[axis];
          }
          ASSERT_EQ(packed[next++], all[static_cast<std::size_t>(at)]) << shape.to_string() << " element " << i;
        }
      }
    } while (std::ranges::next_permutation(axes).found);
  }
}

// Row i depends on keys[i] and the layer only: not on the batch, nor on the shape behind the first axis.
TEST(Dropout, MaskIsAFunctionOfKeyAndLayer) {
  const std::vector<std::int64_t> keys = {-5, 1234567890123, 7};
  const double p = 0.3;
  const Variable ones(placed(Tensor::full({3, 50, 41}, 1)));
  const Tensor own = placed(Tensor::from<std::int64_t>({3}, keys));
  const std::vector<double> y = values(dropout(ones, p, own, 9).data());
  std::int64_t kept = 0;
  for (std::size_t row = 0; row < keys.size(); ++row) {
    KeyedStream stream(static_cast<std::uint64_t>(keys[row]), 9);
    for (std::int64_t j = 0; j < 50 * 41; ++j) {
      const bool keep = stream.next() >= static_cast<std::uint32_t>(0x1p32 * p + 0.5);
      kept += keep ? 1 : 0;
      ASSERT_EQ(y[row * 2050 + static_cast<std::size_t>(j)],
                keep ? static_cast<double>(static_cast<float>(1 / (1 - p))) : 0.0);
    }
  }
  EXPECT_NEAR(static_cast<double>(kept) / 6150, 1 - p, 0.02);
  const Variable one =
      dropout(Variable(placed(Tensor::full({1, 2050}, 1))), p, placed(Tensor::from<std::int64_t>({1}, {7})), 9);
  EXPECT_EQ(values(one.data()), std::vector<double>(y.begin() + 2 * 2050, y.end()));
  EXPECT_EQ(sum(dropout(ones, 1, own, 9)).data().item(), 0);
}

TEST(Curves, FarOutAndNan) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {-inf, -1e30, -800, -100, -20, 0, 20, 100, 800, 1e30, inf, kNan};
  using Curve = Variable (*)(const Variable&);
  using Formula = double (*)(double);
  const std::vector<std::pair<Curve, Formula>> curves = {
      {relu, [](double v) { return std::fmax(v, 0); }},
      {relu6, [](double v) { return std::fmin(std::fmax(v, 0), 6); }},
      {sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {tensor::tanh, [](double v) { return std::tanh(v); }},
      {silu, [](double v) { return v / (1 + std::exp(-v)); }}};
  for (const DType type : {DType::Float32, DType::Float64}) {
    for (std::size_t curve = 0; curve < curves.size(); ++curve) {
      SCOPED_TRACE(::testing::Message() << "curve " << curve << " " << name(type));
      const auto& [f, formula] = curves[curve];
      Variable v(placed(Tensor::from(Shape{static_cast<std::int64_t>(x.size())}, x).to(type)), true);
      Variable y = f(v);
      const std::vector<double> actual = values(y.data());
      for (std::size_t i = 0; i + 1 < x.size(); ++i) {
        if (std::isinf(x[i]) && f == silu) continue;  // infinity times zero
        if (actual[i] == formula(x[i])) continue;     // infinity, too
        EXPECT_NEAR(actual[i], formula(x[i]), 1e-6 * std::abs(formula(x[i])) + 1e-37) << x[i];
      }
      EXPECT_TRUE(std::isnan(actual.back()));
    }
  }
}

TEST(Softmax, LargeLogitsAndRowsOfOne) {
  const Variable huge(placed(Tensor::from<float>({2, 3}, {1e4F, 0, -1e4F, 5e30F, 5e30F, 0})));
  const Tensor first_two = placed(Tensor::from<std::int64_t>({2}, {0, 1}));
  EXPECT_NEAR(cross_entropy(huge, first_two).data().item(), std::log(2.0) / 2, 1e-6);
  for (const double value : values(log_softmax(huge).data())) EXPECT_FALSE(std::isnan(value));
  const Variable x(placed(Tensor::from<float>({2, 3}, {1e30F, 0, -1e30F, -500, -500, -500})));
  expect_close(softmax(x).data(), Tensor::from<double>({2, 3}, {1, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3}), 1e-6, 0);
  for (std::int64_t i = 0; i < 6; ++i) {
    Tensor holed = Tensor::zeros({2, 3});
    holed.data<float>()[i] = static_cast<float>(kNan);
    const Tensor targets = placed(Tensor::zeros({2}, DType::Int64));
    const Variable hole(placed(holed));
    EXPECT_TRUE(std::isnan(cross_entropy(hole, targets).data().item())) << i;
    EXPECT_TRUE(std::isnan(sum(softmax(hole)).data().item())) << i;
    EXPECT_TRUE(std::isnan(sum(log_softmax(hole)).data().item())) << i;
  }
  EXPECT_EQ(values(softmax(Variable(placed(Tensor::zeros({2, 1})))).data()), (std::vector<double>{1, 1}));
  EXPECT_EQ(softmax(Variable(placed(Tensor::zeros({0, 4})))).shape(), (Shape{0, 4}));
}

}  // namespace
}  // namespace tutti::tensor::test
