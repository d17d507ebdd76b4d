// Exact sums: the same bits however rows and images are divided and ordered, and the right values.

#include <gtest/gtest.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/random.h>
#include <tutti/tensor/thread_pool.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

namespace tutti::tensor {
namespace {

/// Of very different sizes, so that a sum in another order has other bits.
Tensor wild(const Shape& shape, unsigned seed) {
  Mt19937 generator(seed);
  Tensor result = Tensor::empty(shape);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const double size = std::ldexp(1.0, -static_cast<int>(generator.next() % 30));
    result.data<float>()[i] = static_cast<float>((static_cast<double>(generator.next()) / 2147483648.0 - 1) * size);
  }
  return result;
}

/// Rows (or images) begin, begin + step, ...
Tensor every_nth(const Tensor& from, std::int64_t begin, std::int64_t step) {
  const std::int64_t row = from.numel() / from.shape()[0];
  std::vector<std::int64_t> extents(from.shape().extents().begin(), from.shape().extents().end());
  extents[0] = (extents[0] - begin + step - 1) / step;
  Tensor result = Tensor::empty(Shape(extents));
  for (std::int64_t i = 0; i < extents[0]; ++i) {
    std::memcpy(result.data<float>() + i * row, from.data<float>() + (begin + i * step) * row,
                static_cast<std::size_t>(row) * sizeof(float));
  }
  return result;
}

/// Adds a sum over the rows of both to `out`.
using Sum = std::function<void(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate)>;

/// As `ranks` ranks would: each sums what it was dealt, then their sums are added up.
Tensor by_ranks(const Sum& sum, const Shape& shape, const Tensor& a, const Tensor& b, int ranks) {
  Tensor total = Tensor::zeros(shape, DType::Float64);
  for (int rank = ranks - 1; rank >= 0; --rank) {
    Tensor part = Tensor::full(shape, NAN, DType::Float64);
    sum(part, every_nth(a, rank, ranks), every_nth(b, rank, ranks), false);
    kernels({}).add(total, total, part);
  }
  return total;
}

void expect_no_order(const Sum& sum, const Shape& shape, const Tensor& a, const Tensor& b) {
  const Tensor whole = by_ranks(sum, shape, a, b, 1);
  for (const int ranks : {2, 3, 5, 7, static_cast<int>(a.shape()[0])}) {
    const Tensor parts = by_ranks(sum, shape, a, b, ranks);
    ASSERT_EQ(std::memcmp(parts.data<double>(), whole.data<double>(), whole.nbytes()), 0) << ranks << " ranks";
  }
  Tensor accumulated = Tensor::full(shape, 0.0, DType::Float64);
  for (std::int64_t row = 0; row < a.shape()[0]; ++row) {
    sum(accumulated, every_nth(a, row, a.shape()[0]), every_nth(b, row, b.shape()[0]), true);
  }
  EXPECT_EQ(std::memcmp(accumulated.data<double>(), whole.data<double>(), whole.nbytes()), 0) << "one at a time";
  set_num_threads(3);
  const Tensor threads = by_ranks(sum, shape, a, b, 2);
  set_num_threads(1);
  EXPECT_EQ(std::memcmp(threads.data<double>(), whole.data<double>(), whole.nbytes()), 0) << "three threads";
}

/// Against float64 of the same kernel, whose operands are float64.
void expect_right(const Sum& sum, const Shape& shape, const Tensor& a, const Tensor& b) {
  const Tensor exact = by_ranks(sum, shape, a, b, 1);
  Tensor expected = Tensor::empty(shape, DType::Float64);
  sum(expected, a.to(DType::Float64), b.to(DType::Float64), false);
  for (std::int64_t i = 0; i < exact.numel(); ++i) {
    const double value = expected.data<double>()[i];
    ASSERT_NEAR(exact.data<double>()[i], value, 1e-6 * std::abs(value) + 1e-7) << "element " << i;
  }
}

void expect_exact(const Sum& sum, const Shape& shape, const Tensor& a, const Tensor& b) {
  expect_no_order(sum, shape, a, b);
  expect_right(sum, shape, a, b);
}

void product(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  kernels({}).gemm(out, a, true, b, false, accumulate);
}

TEST(ExactSum, ProductsOverRows) {
  for (const auto& [rows, m, n] : {std::tuple{23, 5, 31}, {48, 128, 100}, {300, 7, 24}, {11, 1, 1}, {9, 50, 785}}) {
    SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(m) + " x " + std::to_string(n));
    expect_exact(product, {m, n}, wild({rows, m}, 1), wild({rows, n}, 2));
  }
}

TEST(ExactSum, ColumnSums) {
  const Sum columns = [](Tensor& out, const Tensor& a, const Tensor&, bool accumulate) {
    kernels({}).column_sum(out, a, accumulate);
  };
  for (const auto& [rows, n] : {std::pair{17, 3}, {5000, 33}, {64, 1000}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(n));
    const Tensor a = wild({rows, n}, 3);
    expect_exact(columns, {n}, a, a);
  }
}

TEST(ExactSum, WeightGradientsOfConvolutions) {
  struct Case {
    std::int64_t images, extent, channels, outputs, kernel;
    ConvWindow window;
  };
  // Of many pixels an image, summed by images, and of few, summed by pixels.
  for (const Case& c : {Case{9, 12, 1, 8, 3, {}}, Case{10, 15, 20, 33, 3, {.stride = 2, .padding = 1}},
                        Case{8, 40, 17, 4, 1, {}}, Case{11, 7, 32, 6, 3, {.padding = 1, .groups = 2}},
                        Case{9, 4, 3, 8, 3, {.padding = 1}}, Case{10, 7, 20, 33, 3, {.stride = 2, .padding = 1}},
                        Case{70, 2, 40, 100, 1, {}}, Case{11, 5, 32, 6, 3, {.padding = 1, .groups = 2}}}) {
    const Pair padding = c.window.padding;
    const std::int64_t out = (c.extent + 2 * padding.height - c.kernel) / c.window.stride.height + 1;
    SCOPED_TRACE(std::to_string(c.channels) + " channels, " + std::to_string(c.outputs) + " outputs");
    const Sum sum = [&](Tensor& dw, const Tensor& dy, const Tensor& x, bool accumulate) {
      kernels({}).conv2d_weight_gradient(dw, dy, x, c.window, accumulate);
    };
    const Tensor x = wild({c.images, c.extent, c.extent, c.channels}, 4);
    const Tensor dy = wild({c.images, out, out, c.outputs}, 5);
    // Small enough that no sum leaves the range of exact sums.
    kernels({}).scale(const_cast<Tensor&>(dy), dy, 0.01, false);
    expect_exact(sum, {c.outputs, c.channels / c.window.groups, c.kernel, c.kernel}, dy, x);
  }
}

TEST(ExactSum, BeyondTheRangeIsStillASum) {
  const Tensor a = Tensor::full({40, 3}, 100.0);
  const Tensor b = Tensor::full({40, 5}, 0.3);
  Tensor out = Tensor::empty({3, 5}, DType::Float64);
  product(out, a, b, false);
  EXPECT_NEAR(out.data<double>()[7], 40 * 100.0 * static_cast<double>(0.3F), 1e-9);
}

/// By a graph: a leaf whose gradient memory is float64.
TEST(ExactSum, LeafOfFloat32WithMemoryOfFloat64) {
  Variable w(wild({4, 6}, 6), true);
  Variable bias(wild({4}, 7), true);
  const Tensor dw = Tensor::full({4, 6}, NAN, DType::Float64);
  w.set_grad_memory(dw);
  bias.set_grad_memory(Tensor::full({4}, NAN, DType::Float64));
  const Tensor x = wild({15, 6}, 8);
  sum(linear(Variable(x), w, bias)).backward();
  ASSERT_EQ(w.grad().dtype(), DType::Float64);
  EXPECT_EQ(w.grad().data<double>(), dw.data<double>()) << "in place";
  EXPECT_EQ(bias.grad().data<double>()[3], 15.0);
  sum(linear(Variable(x), w, bias)).backward();
  EXPECT_EQ(bias.grad().data<double>()[3], 30.0) << "a second pass adds";
}

TEST(ExactSum, OtherOperationsAddInFloat64) {
  Variable w(Tensor::full({3}, 2.0), true);
  w.set_grad_memory(Tensor::full({3}, NAN, DType::Float64));
  sum(mul(w, w)).backward();
  EXPECT_EQ(w.grad().dtype(), DType::Float64);
  EXPECT_EQ(w.grad().data<double>()[1], 4.0);
  w.zero_grad();
  w.backward(Tensor::full({3}, 0.5));
  EXPECT_EQ(w.grad().data<double>()[1], 0.5);
}

TEST(ExactSum, LossesOfPartsAddUpToThatOfTheWhole) {
  const Tensor x = wild({48, 10}, 9);
  const Tensor targets = Tensor::zeros({48}, DType::Int64);
  const auto losses = [&](std::int64_t size) {
    double entropy = 0;
    double squares = 0;
    for (std::int64_t first = 0; first < 48; first += size) {
      const Tensor part = x.narrow(0, first, size).clone();
      const Tensor labels = targets.narrow(0, first, size).clone();
      entropy += cross_entropy(Variable(part), labels, Reduction::WideSum, 0.1).data().item();
      squares += mse_loss(Variable(part), Tensor::full(part.shape(), 0.1), Reduction::WideSum).data().item();
    }
    return std::pair(entropy, squares);
  };
  const auto whole = losses(48);
  for (const std::int64_t size : {1, 3, 16}) EXPECT_EQ(losses(size), whole) << size << " samples at a time";
  EXPECT_NEAR(whole.first, 48 * cross_entropy(Variable(x), targets, Reduction::Mean, 0.1).data().item(), 1e-4);
}

}  // namespace
}  // namespace tutti::tensor
