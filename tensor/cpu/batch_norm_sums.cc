// Batch norm's sums over the M rows of x (M, C): mean and variance forward, the two sums of the gradient backward.
//
// Rows are cut into blocks that stay in the first-level cache. Within a block sums are taken in T; the blocks of a
// chunk are combined in double, and then the chunks, in order. The cuts depend on M and C alone, so results do not
// depend on the number of threads. A block's mean and variance come from its deviations from the mean of the rows
// before it (of its own rows, for the first one) and are combined by the formula of Chan, Golub and LeVeque ("Updating
// formulae and a pairwise algorithm for computing sample variances", 1979), so that a large mean costs no digits.
#include <tutti/tensor/cpu/batch_norm.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <cstddef>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kBlockBytes = 16 << 10;
constexpr std::int64_t kFewestBlockRows = 16;  // with fewer the double arithmetic per block would be felt
constexpr std::int64_t kMostChunks = 64;
constexpr std::int64_t kRowsAtOnce = 4;  // per read and write of the running sums

// Rows in blocks, blocks in chunks; a chunk is what one thread takes.
struct Cuts {
  std::int64_t rows;
  std::int64_t block_rows;
  std::int64_t chunk_rows = 0;  // a multiple of block_rows
  std::int64_t chunks = 0;
  std::int64_t grain = 1;  // chunks that are worth a thread

  Cuts(std::int64_t m, std::int64_t columns, std::size_t element) : rows(m) {
    const std::int64_t width = std::max<std::int64_t>(1, columns);
    const std::int64_t row_bytes = width * static_cast<std::int64_t>(element);
    block_rows = std::max(kFewestBlockRows, kBlockBytes / row_bytes / kRowsAtOnce * kRowsAtOnce);
    if (m == 0) return;
    const std::int64_t blocks = (m + block_rows - 1) / block_rows;
    chunk_rows = (blocks + kMostChunks - 1) / kMostChunks * block_rows;
    chunks = (m + chunk_rows - 1) / chunk_rows;
    grain = std::max<std::int64_t>(1, kElementGrain / (width * chunk_rows));
  }

  std::int64_t first_row(std::int64_t chunk) const { return chunk * chunk_rows; }
  std::int64_t end_row(std::int64_t chunk) const { return std::min(rows, (chunk + 1) * chunk_rows); }

  template <typename F>
  void for_chunks(F&& chunk) const {
    parallel_for(chunks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) chunk(c);
    });
  }

  // block(first row, rows) for the blocks of one chunk, in order.
  template <typename F>
  void for_blocks(std::int64_t chunk, F&& block) const {
    for (std::int64_t row = first_row(chunk); row < end_row(chunk); row += block_rows) {
      block(row, std::min(block_rows, end_row(chunk) - row));
    }
  }
};

// group.operator()<rows at once>(offset) over `rows` rows of a block.
template <typename F>
void for_row_groups(std::int64_t rows, std::int64_t columns, F&& group) {
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) group.template operator()<kRowsAtOnce>(row * columns);
  for (; row < rows; ++row) group.template operator()<1>(row * columns);
}

template <std::int64_t kRows, typename T>
T add_up(const T (&terms)[kRows]) {
  if constexpr (kRows == 4) {
    return (terms[0] + terms[1]) + (terms[2] + terms[3]);
  } else {
    static_assert(kRows == 1);
    return terms[0];
  }
}

// sums[c] += x over kRows rows
template <std::int64_t kRows, typename T>
void add_rows(T* sums, const T* x, std::int64_t columns) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < columns; ++c) {
    T terms[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) terms[r] = x[r * columns + c];
    sums[c] += add_up(terms);
  }
}

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

template <typename T>
Tensor scratch_rows(std::int64_t rows, std::int64_t columns) {
  return Tensor::empty({rows, columns}, sizeof(T) == sizeof(float) ? DType::Float32 : DType::Float64);
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

// Pointers at the first row of a group.
template <typename T>
struct GradientRows {
  const T* grad;
  const T* x;
  const T* y;  // x unless Mask::FromY reads it
  T* dz;       // null unless written

  GradientRows at(std::int64_t offset) const {
    return {grad + offset, x + offset, y + offset, dz == nullptr ? nullptr : dz + offset};
  }
};

template <Mask kMask, bool kWrite, std::int64_t kRows, typename T>
void add_gradients(T* sums, T* sums_x, const GradientRows<T>& rows, const Channels<T>& channels, std::int64_t columns) {
  const auto [mean, factor, bias] = channels;
  const auto [grad, x, y, dz] = rows;
#pragma GCC ivdep
  for (std::int64_t c = 0; c < columns; ++c) {
    T g[kRows];
    T gx[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::int64_t at = r * columns + c;
      const T centred = x[at] - mean[c];
      g[r] = masked<kMask>(grad[at], centred, y + at, factor[c], bias[c]);
      gx[r] = g[r] * centred;
      if constexpr (kWrite) dz[at] = g[r];
    }
    sums[c] += add_up(g);
    sums_x[c] += add_up(gx);
  }
}

template <Mask kMask, typename T>
void chunk_sums(double* totals, const GradientRows<T>& all, const Channels<T>& channels, const Cuts& cuts,
                std::int64_t chunk, std::int64_t columns) {
  std::fill(totals, totals + 2 * columns, 0.0);
  Tensor scratch = scratch_rows<T>(2, columns);
  T* sums = scratch.data<T>();
  cuts.for_blocks(chunk, [&](std::int64_t first, std::int64_t count) {
    std::fill(sums, sums + 2 * columns, T{0});
    const GradientRows<T> block = all.at(first * columns);
    for_row_groups(count, columns, [&]<std::int64_t kRows>(std::int64_t at) {
      if (all.dz != nullptr) {
        add_gradients<kMask, true, kRows>(sums, sums + columns, block.at(at), channels, columns);
      } else {
        add_gradients<kMask, false, kRows>(sums, sums + columns, block.at(at), channels, columns);
      }
    });
    for (std::int64_t i = 0; i < 2 * columns; ++i) totals[i] += static_cast<double>(sums[i]);
  });
}

}  // namespace

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

void batch_norm_sums(Tensor& sum_dz, Tensor& sum_dzx, Tensor& dz, const BatchNormPass& pass, const Tensor& grad,
                     const Tensor& y) {
  with_float_type(grad.dtype(), [&]<typename T>() {
    const std::int64_t columns = pass.x.shape()[1];
    const Cuts cuts(pass.x.shape()[0], columns, sizeof(T));
    Tensor scratch = Tensor::empty({cuts.chunks, 2, columns}, DType::Float64);
    double* all = scratch.data<double>();
    const Mask mask = mask_of(pass, y);
    const GradientRows<T> rows{grad.data<T>(), pass.x.data<T>(), (mask == Mask::FromY ? y : pass.x).data<T>(),
                               dz.defined() ? dz.data<T>() : nullptr};
    const Channels<T> channels(pass);
    with_mask(mask, [&]<Mask kMask>() {
      cuts.for_chunks(
          [&](std::int64_t c) { chunk_sums<kMask>(all + c * 2 * columns, rows, channels, cuts, c, columns); });
    });
    T* to = sum_dz.data<T>();
    T* to_x = sum_dzx.data<T>();
    for (std::int64_t i = 0; i < columns; ++i) {
      double total = 0;
      double total_x = 0;
      for (std::int64_t c = 0; c < cuts.chunks; ++c) {
        total += all[c * 2 * columns + i];
        total_x += all[(c * 2 + 1) * columns + i];
      }
      to[i] = static_cast<T>(total);
      to_x[i] = static_cast<T>(total_x);
    }
  });
}

}  // namespace tutti::tensor::cpu
