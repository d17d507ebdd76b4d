// The kernels whose speed tricks could go wrong at edges, against the plainest loops in float64.
#include <gtest/gtest.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/thread_pool.h>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "support.h"

namespace tutti::tensor::test {
namespace {

Tensor naive_product(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b) {
  const Tensor left = (transpose_a ? a.transpose(0, 1) : a).to(DType::Float64).contiguous();
  const Tensor right = (transpose_b ? b.transpose(0, 1) : b).to(DType::Float64).contiguous();
  const std::int64_t rows = left.shape()[0];
  const std::int64_t inner = left.shape()[1];
  const std::int64_t columns = right.shape()[1];
  Tensor c = Tensor::zeros({rows, columns}, DType::Float64);
  const auto* const l = left.data<double>();
  const auto* const r = right.data<double>();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double total = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        total += l[i * inner + k] * r[k * columns + j];
      }
      c.data<double>()[i * columns + j] = total;
    }
  }
  return c;
}

struct Extents {
  std::int64_t m, n, k;
};

void check_gemm(const Extents& e, bool ta, bool tb, DType dtype) {
  SCOPED_TRACE(::testing::Message() << e.m << "x" << e.n << "x" << e.k << " ta " << ta << " tb " << tb << " "
                                    << name(dtype));
  const Tensor a = random_tensor(ta ? Shape{e.k, e.m} : Shape{e.m, e.k}, 11, dtype);
  const Tensor b = random_tensor(tb ? Shape{e.n, e.k} : Shape{e.k, e.n}, 12, dtype);
  const Tensor expected = naive_product(a, ta, b, tb);
  const double tolerance = (dtype == DType::Float32 ? 1e-6 : 1e-14) * (10 + static_cast<double>(e.k));
  const KernelTable& k = kernels(test_device());
  Tensor c = Tensor::full({e.m, e.n}, std::numeric_limits<double>::quiet_NaN(), dtype, test_device());
  k.gemm(c, placed(a), ta, placed(b), tb, false);
  expect_close(c, expected, 0, tolerance);
  k.gemm(c, placed(a), ta, placed(b), tb, true);
  Tensor twice = Tensor::empty(expected.shape(), DType::Float64);
  kernels({}).scale(twice, expected, 2, false);
  expect_close(c, twice, 0, 2 * tolerance);
}

TEST(Kernels, GemmAtEveryEdge) {
  const std::vector<Extents> all = {{1, 1, 1},     {1, 17, 3},     {5, 1, 33},     {2, 3, 0},    {64, 50, 784},
                                    {50, 784, 64}, {64, 10, 50},   {10, 50, 64},   {64, 50, 10}, {128, 128, 128},
                                    {33, 47, 65},  {9, 100, 15},   {7, 7, 16},     {16, 16, 17}, {31, 49, 511},
                                    {3, 97, 1030}, {200, 33, 300}, {197, 34, 1040}};
  for (const Extents& e : all) {
    for (const auto& [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      check_gemm(e, ta, tb, DType::Float32);
      check_gemm(e, ta, tb, DType::Float64);
    }
  }
}

// A result that is written past the caches, whole and in parts; rows that lie a multiple of 512 bytes apart.
TEST(Kernels, GemmOfLargeResultsAndOfRowsThatShareSetsOfTheCache) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    check_gemm({520, 4128, 3}, true, false, DType::Float32);
    check_gemm({519, 2064, 3}, false, true, DType::Float64);
    check_gemm({7, 70, 2048}, false, true, DType::Float32);
    check_gemm({13, 65, 1088}, false, true, DType::Float64);
    check_gemm({197, 65, 1152}, false, true, DType::Float32);
    set_num_threads(1);
  }
}

TEST(Kernels, GemmAtRandomSizes) {
  std::mt19937 random(5);
  std::uniform_int_distribution<std::int64_t> extent(1, 90);
  for (int round = 0; round < 60; ++round) {
    const Extents e{extent(random), extent(random), extent(random)};
    check_gemm(e, round % 2 == 1, round % 4 >= 2, round % 3 == 0 ? DType::Float64 : DType::Float32);
  }
}

TEST(Kernels, LongSumsKeepTheirDigits) {
  const Tensor many = Tensor::full({3'000'001}, 0.1, DType::Float32, test_device());
  Tensor total = Tensor::empty({}, DType::Float32, test_device());
  kernels(test_device()).sum(total, many, 1);
  const double first = total.item();
  EXPECT_NEAR(first, 300000.1, 0.3);  // one naive float32 chain is off by thousands
  kernels(test_device()).sum(total, many, 1);
  EXPECT_EQ(total.item(), first);
}

}  // namespace
}  // namespace tutti::tensor::test
