// Sums. A long sum is cut into blocks of fixed length whose partial sums are added in order, in double: the result
// depends neither on the number of threads nor, to float32 rounding, on the length.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/cpu/row_sums.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kBlock = 4096;

// Sum of term(i) for i in [begin, end), in kLanes independent chains so that the compiler may use wide registers.
template <typename T, typename F>
T block_sum(std::int64_t begin, std::int64_t end, F&& term) {
  constexpr std::int64_t kLanes = 64;
  T lanes[kLanes] = {};
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (std::int64_t lane = 0; i < end; ++i, ++lane) lanes[lane] += term(i);
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

template <typename T, typename F>
double blocked_sum(std::int64_t count, F&& term) {
  if (count <= kBlock) return static_cast<double>(block_sum<T>(0, count, term));
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> partial(static_cast<std::size_t>(blocks));
  parallel_for(blocks, kElementGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const T part = block_sum<T>(b * kBlock, std::min(count, (b + 1) * kBlock), term);
      partial[static_cast<std::size_t>(b)] = static_cast<double>(part);
    }
  });
  double total = 0;
  for (const double part : partial) total += part;
  return total;
}

constexpr std::int64_t kRowsInT = 64;

// out[c] = factor * sum over `rows` rows of x, `step` apart: short runs in T, their sums in double.
template <typename T>
void sum_columns(T* out, const T* x, std::int64_t rows, std::int64_t step, std::int64_t columns, double factor) {
  constexpr std::int64_t kStrip = 128;
  for (std::int64_t start = 0; start < columns; start += kStrip) {
    const std::int64_t width = std::min(kStrip, columns - start);
    double totals[kStrip] = {};
    for (std::int64_t row = 0; row < rows; row += kRowsInT) {
      T part[kStrip] = {};
      for (std::int64_t r = row; r < std::min(rows, row + kRowsInT); ++r) {
        const T* line = x + r * step + start;
        for (std::int64_t c = 0; c < width; ++c) part[c] += line[c];
      }
      for (std::int64_t c = 0; c < width; ++c) totals[c] += static_cast<double>(part[c]);
    }
    for (std::int64_t c = 0; c < width; ++c) out[start + c] = static_cast<T>(factor * totals[c]);
  }
}

}  // namespace

void sum_middle(Tensor& out, const Tensor& a, double factor) {
  with_float_type(a.dtype(), [&]<typename T>() {
    const std::int64_t outer = a.shape()[0];
    const std::int64_t rows = a.shape()[1];
    const std::int64_t columns = a.shape()[2];
    const T* x = a.data<T>();
    T* to = out.data<T>();
    if (columns == 1 && outer == 1) {
      *to = static_cast<T>(factor * blocked_sum<T>(rows, [=](std::int64_t i) { return x[i]; }));
      return;
    }
    const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, rows * columns) + 1;
    parallel_for(outer, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        const T* slab = x + o * rows * columns;
        if (columns > 1) {
          sum_columns(to + o * columns, slab, rows, columns, columns, factor);
          continue;
        }
        double total = 0;
        for (std::int64_t start = 0; start < rows; start += kBlock) {
          const std::int64_t stop = std::min(rows, start + kBlock);
          total += static_cast<double>(block_sum<T>(start, stop, [=](std::int64_t i) { return slab[i]; }));
        }
        to[o] = static_cast<T>(factor * total);
      }
    });
  });
}

void sum(Tensor& out, const Tensor& a, double factor) {
  with_float_type(a.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    *out.data<T>() = static_cast<T>(factor * blocked_sum<T>(a.numel(), [=](std::int64_t i) { return x[i]; }));
  });
}

void squared_error(Tensor& loss, const Tensor& a, const Tensor& b, double factor) {
  with_float_type(a.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    const auto term = [=](std::int64_t i) {
      const T difference = x[i] - y[i];
      return difference * difference;
    };
    const bool wide = loss.dtype() != a.dtype();
    const auto wide_term = [=](std::int64_t i) { return rounded_loss(static_cast<double>(term(i))); };
    loss.fill(factor * (wide ? blocked_sum<double>(a.numel(), wide_term) : blocked_sum<T>(a.numel(), term)));
  });
}

void column_sum(Tensor& out, const Tensor& a, bool accumulate) {
  if (out.dtype() != a.dtype()) return exact_column_sum(out, a, accumulate);
  with_float_type(a.dtype(), [&]<typename T>() {
    const std::int64_t columns = a.shape()[1];
    const Cuts cuts(a.shape()[0], columns, sizeof(T));
    const T* from = a.data<T>();
    T* to = out.data<T>();
    if (!accumulate) std::fill(to, to + columns, T{0});
    const auto add_block = [&](T* sums, std::int64_t first, std::int64_t rows) {
      const T* block = from + first * columns;
      for_row_groups(rows, columns,
                     [&]<std::int64_t kRows>(std::int64_t at) { add_rows<kRows>(sums, block + at, columns); });
    };
    if (cuts.rows <= cuts.block_rows) return add_block(to, 0, cuts.rows);
    Tensor scratch = Tensor::empty({cuts.chunks, columns}, DType::Float64);
    double* all = scratch.data<double>();
    cuts.for_chunks([&](std::int64_t chunk) {
      double* totals = all + chunk * columns;
      std::fill(totals, totals + columns, 0.0);
      Tensor line = scratch_rows<T>(1, columns);
      T* sums = line.data<T>();
      cuts.for_blocks(chunk, [&](std::int64_t first, std::int64_t rows) {
        std::fill(sums, sums + columns, T{0});
        add_block(sums, first, rows);
        for (std::int64_t c = 0; c < columns; ++c) totals[c] += static_cast<double>(sums[c]);
      });
    });
    for (std::int64_t c = 0; c < columns; ++c) {
      double total = 0;
      for (std::int64_t chunk = 0; chunk < cuts.chunks; ++chunk) total += all[chunk * columns + c];
      to[c] += static_cast<T>(total);
    }
  });
}

}  // namespace tutti::tensor::cpu
