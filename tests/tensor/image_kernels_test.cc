// Batch norm, pooling, dropout and the activations at their edges: threads, large means, NaN, empty batches, options.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/keyed_stream.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "support.h"

namespace tutti::tensor::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(1); }
};

// Everything that one recorded operation produces: the result and the gradients of its inputs.
using Results = std::vector<Tensor>;
using Operation = std::function<Variable(const std::vector<Variable>&)>;

Results run(const Operation& operation, const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input.clone(), true);
  Variable y = operation(leaves);
  y.backward(random_tensor(y.shape(), 5, y.data().dtype()));
  Results results{y.data()};
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void expect_same_bits_on_threads(const Operation& operation, const std::vector<Tensor>& inputs) {
  const Results alone = run(operation, inputs);
  for (const int count : {2, 5}) {
    const Threads threads(count);
    const Results together = run(operation, inputs);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      ASSERT_EQ(std::memcmp(together[i].raw(), alone[i].raw(), alone[i].nbytes()), 0)
          << "result " << i << " on " << count << " threads";
    }
  }
}

Variable normalise(const std::vector<Variable>& in, BatchNormOptions options = {}) {
  const Shape& channels = in[1].shape();
  const DType type = in[0].data().dtype();
  return batch_norm(in[0], in[1], in[2], Tensor::zeros(channels, type), Tensor::full(channels, 1, type), options,
                    in.size() > 3 ? in[3] : Variable());
}

TEST(ImageKernels, ThreadsDoNotChangeABit) {
  const Tensor x = random_tensor({13, 31, 29, 40}, 1, DType::Float32);
  const Tensor c = random_tensor({40}, 2, DType::Float32);
  const BatchNormOptions relu{.activation = Activation::Relu};
  expect_same_bits_on_threads([&](const auto& in) { return normalise(in, relu); }, {x, c, c});
  expect_same_bits_on_threads([&](const auto& in) { return normalise(in, relu); }, {x, c, c, x});
  expect_same_bits_on_threads(
      [](const auto& in) { return max_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return avg_pool2d(in[0], {.kernel = 3, .stride = 2}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return adaptive_avg_pool2d(in[0], 7); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return silu(in[0]); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return mean(in[0], {1, 2}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return mul_channels(in[0], in[1]); },
                              {x, random_tensor({13, 40}, 3, DType::Float32)});
  Tensor keys = Tensor::zeros({13}, DType::Int64);
  expect_same_bits_on_threads([&](const auto& in) { return dropout(in[0], 0.5, keys, 1); }, {x});
}

// The plainest two-pass formula in float64.
TEST(BatchNorm, StatisticsOfEveryShapeAndOfLargeMeans) {
  for (const Shape& shape : {Shape{2, 1}, Shape{3, 5}, Shape{17, 3}, Shape{16, 64}, Shape{65, 300}, Shape{10007, 3},
                             Shape{4099, 19}, Shape{129, 2048}}) {
    for (const double mean : {0.0, 1000.0}) {
      SCOPED_TRACE(shape.to_string() + " around " + std::to_string(mean));
      Tensor x = random_tensor(shape, 7, DType::Float32);
      for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] += static_cast<float>(mean);
      Tensor actual_mean = Tensor::empty({shape[1]});
      Tensor actual_variance = Tensor::empty({shape[1]});
      kernels({}).batch_norm_statistics(actual_mean, actual_variance, x);
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        double sum = 0;
        double squares = 0;
        const auto value = [&](std::int64_t r) { return static_cast<double>(x.data<float>()[r * shape[1] + c]); };
        for (std::int64_t r = 0; r < shape[0]; ++r) sum += value(r);
        sum /= static_cast<double>(shape[0]);
        for (std::int64_t r = 0; r < shape[0]; ++r) squares += (value(r) - sum) * (value(r) - sum);
        const double variance = squares / static_cast<double>(shape[0]);
        ASSERT_NEAR(static_cast<double>(actual_mean.data<float>()[c]), sum, 1e-6 * (1 + mean / 10));
        ASSERT_NEAR(static_cast<double>(actual_variance.data<float>()[c]), variance, 1e-5 * variance + 1e-9);
      }
    }
  }
}

TEST(BatchNorm, UpdatesRunningStatisticsInTrainingOnly) {
  const Variable x(Tensor::from<double>({4, 1}, {1, 2, 3, 6}));
  const Variable one(Tensor::full({1}, 1, DType::Float64));
  Tensor mean = Tensor::full({1}, 10, DType::Float64);
  Tensor variance = Tensor::full({1}, 20, DType::Float64);
  batch_norm(x, one, one, mean, variance, {.training = false});
  EXPECT_EQ(values(mean), std::vector<double>{10});
  batch_norm(x, one, one, mean, variance, {.momentum = 0.25});
  EXPECT_DOUBLE_EQ(mean.item(), 0.75 * 10 + 0.25 * 3);
  EXPECT_DOUBLE_EQ(variance.item(), 0.75 * 20 + 0.25 * 14 / 3);
  // An empty batch has no statistics; it changes nothing and is no error.
  Variable w(one.data().clone(), true);
  Variable empty = batch_norm(Variable(Tensor::zeros({0, 3, 3, 1}, DType::Float64)), w, one, mean, variance, {});
  EXPECT_EQ(empty.shape(), (Shape{0, 3, 3, 1}));
  EXPECT_DOUBLE_EQ(mean.item(), 0.75 * 10 + 0.25 * 3);
  sum(empty).backward();
  EXPECT_EQ(w.grad().item(), 0);
}

TEST(BatchNorm, NanIsNotLost) {
  Tensor x = random_tensor({40, 3}, 1, DType::Float32);
  x.data<float>()[3 * 11 + 1] = static_cast<float>(kNan);
  const Variable c(Tensor::full({3}, 1));
  const Variable y = normalise({Variable(x), c, c}, {.activation = Activation::Relu});
  EXPECT_TRUE(std::isnan(y.data().data<float>()[1]));
  EXPECT_FALSE(std::isnan(y.data().data<float>()[0]));
}

TEST(BatchNorm, Refusals) {
  const auto batch = [](const Shape& x, const Shape& weight, DType type = DType::Float32) {
    const Variable w(Tensor::zeros(weight, type));
    return refusal([&] { normalise({Variable(Tensor::zeros(x)), w, w}); });
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
  Variable x(Tensor::from<float>({1, 2, 3, 1}, {1, 5, 5, 5, 0, 5}), true);
  sum(max_pool2d(x, {.kernel = {2, 3}})).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{0, 1, 0, 0, 0, 0}));
  for (std::int64_t i = 0; i < 6; ++i) {
    Tensor holed = Tensor::full({1, 2, 3, 1}, 3);
    holed.data<float>()[i] = static_cast<float>(kNan);
    EXPECT_TRUE(std::isnan(max_pool2d(Variable(holed), {.kernel = {2, 3}}).data().item())) << i;
  }
  const Tensor low = Tensor::full({1, 2, 2, 1}, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(max_pool2d(Variable(low), {.kernel = 2, .padding = 1}).data().data<float>()[0],
            -std::numeric_limits<float>::infinity());
}

// More positions than a byte can number.
TEST(MaxPool, LargeWindows) {
  for (const std::int64_t extent : {16, 17, 40}) {
    Tensor image = random_tensor({1, extent, extent, 1}, 3, DType::Float32);
    const std::int64_t last = extent * extent - 1;
    image.data<float>()[last] = 2;
    Variable x(image, true);
    sum(max_pool2d(x, {.kernel = extent})).backward();
    EXPECT_EQ(values(x.grad())[static_cast<std::size_t>(last)], 1);
    EXPECT_EQ(sum(Variable(x.grad())).data().item(), 1);
  }
}

TEST(Pooling, OutputExtentsAndDivisors) {
  const Variable x(Tensor::full({1, 5, 7, 1}, 6));
  EXPECT_EQ(max_pool2d(x, {.kernel = 2}).shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(max_pool2d(x, {.kernel = 2, .ceil_mode = true}).shape(), (Shape{1, 3, 4, 1}));
  // The last window of ceil mode may not begin in the padding behind the image.
  EXPECT_EQ(max_pool2d(x, {.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}).shape(), (Shape{1, 2, 3, 1}));
  const Variable padded = avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  EXPECT_FLOAT_EQ(padded.data().data<float>()[0], 6.0F * 4 / 9);
  const Variable inside = avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false});
  EXPECT_FLOAT_EQ(inside.data().data<float>()[0], 6.0F);
  EXPECT_EQ(max_pool2d(Variable(Tensor::zeros({0, 4, 4, 3})), {.kernel = 2}).shape(), (Shape{0, 2, 2, 3}));
}

TEST(Pooling, Refusals) {
  const Variable x(Tensor::zeros({2, 4, 5, 3}));
  EXPECT_EQ(refusal([&] {
              max_pool2d(x, {.kernel = {5, 2}});
            }),
            "max_pool2d: x is float32 (2, 4, 5, 3); kernel (5, 2) is larger than the image (4, 5) with padding (0, 0) "
            "on each side");
  EXPECT_EQ(
      refusal([&] { avg_pool2d(x, {.kernel = 3, .padding = 2}); }),
      "avg_pool2d: x is float32 (2, 4, 5, 3); padding (2, 2) must be from 0 to half of the kernel, which is (3, 3)");
  EXPECT_EQ(refusal([&] { max_pool2d(x, {.kernel = 0}); }),
            "max_pool2d: x is float32 (2, 4, 5, 3); kernel (0, 0) and stride (0, 0) must be at least 1");
  EXPECT_EQ(refusal([&] {
              adaptive_avg_pool2d(x, {0, 1});
            }),
            "adaptive_avg_pool2d: x is float32 (2, 4, 5, 3); the image and the output (0, 1) must not be empty");
  EXPECT_EQ(refusal([] {
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
        const Tensor part = scaled.to(type).narrow(3, 1, shape[3]);
        const NoGrad no_grad;
        const Tensor turned = permute(Variable(part), axes).data();
        const Tensor packed = turned.contiguous().to(DType::Float64);
        const std::vector<double> all = values(part);
        std::vector<std::int64_t> steps{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
        std::int64_t next = 0;
        for (std::int64_t i = 0; i < turned.numel(); ++i) {
          std::int64_t rest = i;
          std::int64_t at = 0;
          for (int axis = 3; axis >= 0; --axis) {
            at += rest % turned.shape()[axis] * steps[static_cast<std::size_t>(axes[static_cast<std::size_t>(axis)])];
            rest /= turned.shape()[axis];
          }
          ASSERT_EQ(packed.data<double>()[next++], all[static_cast<std::size_t>(at)])
              << shape.to_string() << " element " << i;
        }
      }
    } while (std::ranges::next_permutation(axes).found);
  }
}

// Row i depends on keys[i] and the layer only: not on the batch, nor on the shape behind the first axis.
TEST(Dropout, MaskIsAFunctionOfKeyAndLayer) {
  const std::vector<std::int64_t> keys = {-5, 1234567890123, 7};
  const double p = 0.3;
  const Variable ones(Tensor::full({3, 50, 41}, 1));
  const Variable y = dropout(ones, p, Tensor::from<std::int64_t>({3}, keys), 9);
  std::int64_t kept = 0;
  for (std::size_t row = 0; row < keys.size(); ++row) {
    KeyedStream stream(static_cast<std::uint64_t>(keys[row]), 9);
    for (std::int64_t j = 0; j < 50 * 41; ++j) {
      const bool keep = stream.next() >= static_cast<std::uint32_t>(0x1p32 * p + 0.5);
      kept += keep ? 1 : 0;
      ASSERT_EQ(y.data().data<float>()[static_cast<std::int64_t>(row) * 2050 + j],
                keep ? static_cast<float>(1 / (1 - p)) : 0.0F);
    }
  }
  EXPECT_NEAR(static_cast<double>(kept) / 6150, 1 - p, 0.02);
  const Variable one = dropout(Variable(Tensor::full({1, 2050}, 1)), p, Tensor::from<std::int64_t>({1}, {7}), 9);
  EXPECT_EQ(std::memcmp(one.data().raw(), y.data().data<float>() + 2 * 2050, 2050 * sizeof(float)), 0);
  EXPECT_EQ(sum(dropout(ones, 1, Tensor::from<std::int64_t>({3}, keys), 9)).data().item(), 0);
}

TEST(Curves, FarOutAndNan) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {-inf, -1e30, -800, -100, -20, 0, 20, 100, 800, 1e30, inf, kNan};
  using Curve = Variable (*)(const Variable&);
  using Formula = double (*)(double);
  const std::vector<std::pair<Curve, Formula>> curves = {
      {relu6, [](double v) { return std::fmin(std::fmax(v, 0), 6); }},
      {sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {tensor::tanh, [](double v) { return std::tanh(v); }},
      {silu, [](double v) { return v / (1 + std::exp(-v)); }}};
  for (const DType type : {DType::Float32, DType::Float64}) {
    for (std::size_t curve = 0; curve < curves.size(); ++curve) {
      SCOPED_TRACE(::testing::Message() << "curve " << curve << " " << name(type));
      const auto& [f, formula] = curves[curve];
      Variable v(Tensor::from(Shape{static_cast<std::int64_t>(x.size())}, x).to(type), true);
      Variable y = f(v);
      const std::vector<double> actual = values(y.data());
      for (std::size_t i = 0; i + 1 < x.size(); ++i) {
        if (std::isinf(x[i]) && curve == 3) continue;  // infinity times zero
        EXPECT_NEAR(actual[i], formula(x[i]), 1e-6 * std::abs(formula(x[i])) + 1e-37) << x[i];
      }
      EXPECT_TRUE(std::isnan(actual.back()));
    }
  }
}

TEST(Softmax, LargeLogitsAndRowsOfOne) {
  const Variable x(Tensor::from<float>({2, 3}, {1e30F, 0, -1e30F, -500, -500, -500}));
  expect_close(softmax(x).data(), Tensor::from<double>({2, 3}, {1, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3}), 1e-6, 0);
  EXPECT_EQ(values(softmax(Variable(Tensor::zeros({2, 1}))).data()), (std::vector<double>{1, 1}));
  EXPECT_EQ(softmax(Variable(Tensor::zeros({0, 4}))).shape(), (Shape{0, 4}));
}

}  // namespace
}  // namespace tutti::tensor::test
