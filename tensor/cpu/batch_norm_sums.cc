// The two sums that batch norm's backward takes over the rows of the gradient, with dz = the gradient where relu let it
// pass: of dz and of dz (x - mean). dz is written on the way where it is wanted.
#include <tutti/tensor/cpu/batch_norm.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/cpu/row_sums.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

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

/// `exact_scale`: null, or for exact sums what the terms of the second one are multiplied by.
template <Mask kMask, typename T>
void chunk_sums(double* totals, const GradientRows<T>& all, const Channels<T>& channels, const Cuts& cuts,
                std::int64_t chunk, std::int64_t columns, const T* exact_scale) {
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
    if (exact_scale == nullptr) {
      for (std::int64_t i = 0; i < 2 * columns; ++i) totals[i] += static_cast<double>(sums[i]);
      return;
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      totals[i] += rounded(static_cast<double>(sums[i]));
      totals[columns + i] += rounded(static_cast<double>(sums[columns + i]) * static_cast<double>(exact_scale[i]));
    }
  });
}

}  // namespace

void batch_norm_sums(Tensor& sum_dz, Tensor& sum_dzx, Tensor& dz, const BatchNormPass& pass, const Tensor& grad,
                     const Tensor& y) {
  with_float_type(grad.dtype(), [&]<typename T>() {
    const std::int64_t columns = pass.x.shape()[1];
    const bool exact = pass.image_rows > 0;
    const Cuts cuts(pass.x.shape()[0], columns, sizeof(T), pass.image_rows);
    const T* exact_scale = exact ? pass.inverse_deviation.data<T>() : nullptr;
    Tensor scratch = Tensor::empty({cuts.chunks, 2, columns}, DType::Float64);
    double* all = scratch.data<double>();
    const Mask mask = mask_of(pass, y);
    const GradientRows<T> rows{grad.data<T>(), pass.x.data<T>(), (mask == Mask::FromY ? y : pass.x).data<T>(),
                               dz.defined() ? dz.data<T>() : nullptr};
    const Channels<T> channels(pass);
    with_mask(mask, [&]<Mask kMask>() {
      cuts.for_chunks([&](std::int64_t c) {
        chunk_sums<kMask>(all + c * 2 * columns, rows, channels, cuts, c, columns, exact_scale);
      });
    });
    with_float_type(sum_dz.dtype(), [&]<typename Sum>() {
      Sum* to = sum_dz.data<Sum>();
      Sum* to_x = sum_dzx.data<Sum>();
      for (std::int64_t i = 0; i < columns; ++i) {
        double total = 0;
        double total_x = 0;
        for (std::int64_t c = 0; c < cuts.chunks; ++c) {
          total += all[c * 2 * columns + i];
          total_x += all[(c * 2 + 1) * columns + i];
        }
        to[i] = static_cast<Sum>(total);
        to_x[i] = static_cast<Sum>(total_x);
      }
    });
  });
}

}  // namespace tutti::tensor::cpu
