// Mean and variance of the columns of x (M, C), in one pass.
//
// A block's mean and variance come from its deviations from the mean of the rows before it (of its own rows, for the
// first one) and are combined by the formula of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm
// for computing sample variances", 1979), so that a large mean costs no digits. The exact sums are of deviations from a
// centre that the caller knows beforehand: digits are lost only where the mean is far from it.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/cpu/row_sums.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

// sums[c] += x - centre, squares[c] += (x - centre)^2 over kRows rows
template <std::int64_t kRows, typename T>
void add_deviations(T* sums, T* squares, const T* x, const T* centre, std::int64_t columns) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < columns; ++c) {
    T terms[kRows];
    T squared[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      terms[r] = x[r * columns + c] - centre[c];
      squared[r] = terms[r] * terms[r];
    }
    sums[c] += add_up(terms);
    squares[c] += add_up(squared);
  }
}

// Mean and sum of squared deviations, for each column.
struct Moments {
  double* mean;
  double* squares;
  std::int64_t columns;

  void clear() const {
    std::fill(mean, mean + columns, 0.0);
    std::fill(squares, squares + columns, 0.0);
  }

  // Those of `count` rows become those of `count` + `more`. The others are seen from `centre`: their sum and sum of
  // squares of deviations from it, which moves to the new mean.
  template <typename T>
  void join(std::int64_t count, std::int64_t more, const T* sums, const T* sums_of_squares, T* centre) const {
    const double share = static_cast<double>(more) / static_cast<double>(count + more);
    const double weight = share * static_cast<double>(count);
    const double inverse = 1.0 / static_cast<double>(more);
    double* const to_mean = mean;
    double* const to_squares = squares;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < columns; ++c) {
      const double off = static_cast<double>(sums[c]) * inverse;
      const double delta = static_cast<double>(centre[c]) + off - to_mean[c];
      const double own = static_cast<double>(sums_of_squares[c]) - static_cast<double>(sums[c]) * off;
      to_mean[c] += delta * share;
      to_squares[c] += own + delta * delta * weight;
      centre[c] = static_cast<T>(to_mean[c]);
    }
  }

  void join(std::int64_t count, std::int64_t more, const Moments& other) const {
    const double share = static_cast<double>(more) / static_cast<double>(count + more);
    const double weight = share * static_cast<double>(count);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double delta = other.mean[c] - mean[c];
      mean[c] += delta * share;
      squares[c] += other.squares[c] + delta * delta * weight;
    }
  }
};

template <typename T>
void mean_of_block(T* mean, const T* block, std::int64_t rows, std::int64_t columns) {
  std::fill(mean, mean + columns, T{0});
  for_row_groups(rows, columns,
                 [&]<std::int64_t kRows>(std::int64_t at) { add_rows<kRows>(mean, block + at, columns); });
  const T share = T{1} / static_cast<T>(rows);
  for (std::int64_t c = 0; c < columns; ++c) mean[c] *= share;
}

template <typename T>
void chunk_moments(const Moments& to, const T* x, const Cuts& cuts, std::int64_t chunk) {
  const std::int64_t columns = to.columns;
  to.clear();
  Tensor scratch = scratch_rows<T>(3, columns);
  T* sums = scratch.data<T>();
  T* squares = sums + columns;
  T* centre = squares + columns;
  std::int64_t seen = 0;
  cuts.for_blocks(chunk, [&](std::int64_t first, std::int64_t rows) {
    const T* block = x + first * columns;
    if (seen == 0) mean_of_block(centre, block, rows, columns);
    std::fill(sums, sums + 2 * columns, T{0});
    for_row_groups(rows, columns, [&]<std::int64_t kRows>(std::int64_t at) {
      add_deviations<kRows>(sums, squares, block + at, centre, columns);
    });
    to.join(seen, rows, sums, squares, centre);
    seen += rows;
  });
}

/// totals (4, C): the high and then the low parts of both sums.
template <typename T>
void chunk_deviations(double* totals, const T* x, const T* centre, const Cuts& cuts, std::int64_t chunk,
                      std::int64_t columns) {
  std::fill(totals, totals + 4 * columns, 0.0);
  Tensor scratch = scratch_rows<T>(2, columns);
  T* sums = scratch.data<T>();
  cuts.for_blocks(chunk, [&](std::int64_t first, std::int64_t rows) {
    std::fill(sums, sums + 2 * columns, T{0});
    const T* block = x + first * columns;
    for_row_groups(rows, columns, [&]<std::int64_t kRows>(std::int64_t at) {
      add_deviations<kRows>(sums, sums + columns, block + at, centre, columns);
    });
    for (std::int64_t i = 0; i < 2 * columns; ++i) {
      const TwoParts parts(static_cast<double>(sums[i]));
      totals[i] += parts.high;
      totals[2 * columns + i] += parts.low;
    }
  });
}

}  // namespace

void batch_norm_moments(Tensor& sums, const Tensor& x, const Tensor& centre, std::int64_t image_rows) {
  with_float_type(x.dtype(), [&]<typename T>() {
    const std::int64_t columns = x.shape()[1];
    const Cuts cuts(x.shape()[0], columns, sizeof(T), image_rows);
    Tensor scratch = Tensor::empty({cuts.chunks, 4, columns}, DType::Float64);
    double* all = scratch.data<double>();
    cuts.for_chunks([&](std::int64_t c) {
      chunk_deviations(all + c * 4 * columns, x.data<T>(), centre.data<T>(), cuts, c, columns);
    });
    double* to = sums.data<double>();
    std::fill(to, to + 4 * columns, 0.0);
    for (std::int64_t i = 0; i < scratch.numel(); ++i) to[i % (4 * columns)] += all[i];
  });
}

void batch_norm_statistics(Tensor& mean, Tensor& variance, const Tensor& x) {
  with_float_type(x.dtype(), [&]<typename T>() {
    const std::int64_t columns = x.shape()[1];
    const Cuts cuts(x.shape()[0], columns, sizeof(T));
    Tensor scratch = Tensor::empty({cuts.chunks + 1, 2, columns}, DType::Float64);
    double* all = scratch.data<double>();
    const auto moments = [&](std::int64_t chunk) {
      double* at = all + chunk * 2 * columns;
      return Moments{at, at + columns, columns};
    };
    const T* from = x.data<T>();
    cuts.for_chunks([&](std::int64_t c) { chunk_moments(moments(c), from, cuts, c); });
    const Moments total = moments(cuts.chunks);
    total.clear();
    for (std::int64_t c = 0; c < cuts.chunks; ++c) {
      total.join(cuts.first_row(c), cuts.end_row(c) - cuts.first_row(c), moments(c));
    }
    T* to_mean = mean.data<T>();
    T* to_variance = variance.data<T>();
    const double share = 1.0 / static_cast<double>(cuts.rows);
    for (std::int64_t c = 0; c < columns; ++c) {
      to_mean[c] = static_cast<T>(total.mean[c]);
      to_variance[c] = static_cast<T>(total.squares[c] * share);
    }
  });
}

}  // namespace tutti::tensor::cpu
