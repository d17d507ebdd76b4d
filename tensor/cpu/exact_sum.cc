// Exact sums over the rows of two matrices: c (M, N) = a (K, M)^T b (K, N), and over the rows of one. See exact_sum.h.
//
// The product is the ordinary one of float64 panels, on operands that are made float64 on the way: a as a whole, of b
// as many columns as a panel holds.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/cpu/gemm.h>
#include <tutti/tensor/cpu/row_sums.h>
#include <tutti/tensor/cpu/simd.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kPanelColumns = kPanelsVectors * Simd<double>::kLanes;
constexpr std::int64_t kThreadGrain = std::int64_t{1} << 20;  // multiply-adds that are worth a thread

void widen(double* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

Tensor widened(const Tensor& a) {
  Tensor result = Tensor::empty(a.shape(), DType::Float64);
  const float* from = a.data<float>();
  double* to = result.data<double>();
  parallel_for(a.numel(), kElementGrain,
               [=](std::int64_t begin, std::int64_t end) { widen(to + begin, from + begin, end - begin); });
  return result;
}

}  // namespace

void exact_product(Tensor& c, const Tensor& a, const Tensor& b, bool accumulate) {
  const std::int64_t rows = a.shape()[0];
  const std::int64_t columns = c.shape()[1];
  const Tensor left = widened(a);
  const Product<double> whole{.m = c.shape()[0],
                              .n = columns,
                              .k = rows,
                              .a = left.data<double>(),
                              .a_row = 1,
                              .a_col = c.shape()[0],
                              .b = nullptr,  // a panel at a time
                              .b_row = kPanelColumns,
                              .b_col = 1,
                              .c = c.data<double>(),
                              .c_row = columns,
                              .accumulate = accumulate,
                              .start = kExactStart};
  const float* const right = b.data<float>();
  const std::int64_t grain = kThreadGrain / std::max<std::int64_t>(1, whole.m * rows * kPanelColumns) + 1;
  parallel_for((columns + kPanelColumns - 1) / kPanelColumns, grain, [&](std::int64_t begin, std::int64_t end) {
    Tensor memory = Tensor::empty({rows, kPanelColumns}, DType::Float64);
    double* const panel = memory.data<double>();
    const RoundDown down;
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t first = p * kPanelColumns;
      Product<double> part = whole;
      part.n = std::min(kPanelColumns, columns - first);
      for (std::int64_t row = 0; row < rows; ++row) {
        widen(panel + row * kPanelColumns, right + row * columns + first, part.n);
      }
      part.b = panel;
      part.c = whole.c + first;
      gemm_panels(part);
    }
  });
}

void exact_column_sum(Tensor& out, const Tensor& a, bool accumulate) {
  const std::int64_t columns = a.shape()[1];
  const Cuts cuts(a.shape()[0], columns, sizeof(double));
  const float* const from = a.data<float>();
  double* const to = out.data<double>();
  Tensor scratch = Tensor::empty({cuts.chunks, columns}, DType::Float64);
  double* const all = scratch.data<double>();
  cuts.for_chunks([&](std::int64_t chunk) {
    double* const sums = all + chunk * columns;
    std::fill_n(sums, columns, 0.0);
    for (std::int64_t row = cuts.first_row(chunk); row < cuts.end_row(chunk); ++row) {
      for (std::int64_t c = 0; c < columns; ++c) sums[c] += rounded(from[row * columns + c]);
    }
  });
  if (!accumulate) std::fill_n(to, columns, 0.0);
  for (std::int64_t chunk = 0; chunk < cuts.chunks; ++chunk) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] += all[chunk * columns + c];
  }
}

}  // namespace tutti::tensor::cpu
