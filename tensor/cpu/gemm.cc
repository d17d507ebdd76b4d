// Matrix products: which kernel, on how many threads.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/gemm.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

// From this k on, adding up the lanes at the end of a dot product costs less than turning b around. Chosen by k alone,
// so that a row of the result does not depend on how many rows there are.
constexpr std::int64_t kLongDots = 512;
// Multiply-adds below which a second thread costs more than it brings: some 20 us of work.
constexpr std::int64_t kThreadGrain = std::int64_t{1} << 21;
// A cut through c falls on a multiple of this, so that every thread has whole tiles and cache lines.
constexpr std::int64_t kCut = 48;

template <typename T>
void run(const Product<T>& part) {
  if (part.a_col == 1 && part.b_row == 1 && part.k >= kLongDots) {
    gemm_dots(part);
  } else {
    gemm_panels(part);
  }
}

// Cuts the longer side of c. What an element is does not depend on the cut.
template <typename T>
void run_on_threads(const Product<T>& whole) {
  const bool cut_rows = whole.m >= whole.n;
  const std::int64_t length = cut_rows ? whole.m : whole.n;
  const std::int64_t work_per_unit = std::max<std::int64_t>(1, (cut_rows ? whole.n : whole.m) * whole.k);
  const std::int64_t grain = (kThreadGrain / work_per_unit / kCut + 1) * kCut;
  parallel_for(length, grain, [&](std::int64_t begin, std::int64_t end) {
    Product<T> part = whole;
    if (cut_rows) {
      part.m = end - begin;
      part.a += begin * whole.a_row;
      part.c += begin * whole.c_row;
    } else {
      part.n = end - begin;
      part.b += begin * whole.b_col;
      part.c += begin;
    }
    run(part);
  });
}

}  // namespace

void gemm(Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, bool accumulate) {
  if (c.numel() == 0) return;
  if (c.dtype() != a.dtype() && transpose_a && !transpose_b) return exact_product(c, a, b, accumulate);
  with_float_type(c.dtype(), [&]<typename T>() {
    const std::int64_t a_row = a.shape()[1];
    const std::int64_t b_row = b.shape()[1];
    run_on_threads<T>({.m = c.shape()[0],
                       .n = c.shape()[1],
                       .k = a.shape()[transpose_a ? 0 : 1],
                       .a = a.data<T>(),
                       .a_row = transpose_a ? 1 : a_row,
                       .a_col = transpose_a ? a_row : 1,
                       .b = b.data<T>(),
                       .b_row = transpose_b ? 1 : b_row,
                       .b_col = transpose_b ? b_row : 1,
                       .c = c.data<T>(),
                       .c_row = c.shape()[1],
                       .accumulate = accumulate});
  });
}

void linear(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, bool relu) {
  gemm(y, x, false, w, true, false);
  bias_activation(y, bias, relu);
}

}  // namespace tutti::tensor::cpu
