// Batch norm over x (M, C): the passes that write a row for a row. The sums are in batch_norm_statistics.cc and
// batch_norm_sums.cc.
#include <tutti/tensor/cpu/batch_norm.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <cmath>

namespace tutti::tensor::cpu {
namespace {

template <typename F>
void for_rows(std::int64_t rows, std::int64_t columns, F&& row) {
  const std::int64_t grain = kElementGrain / std::max<std::int64_t>(1, columns) + 1;
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) row(r * columns);
  });
}

template <bool kRelu, bool kResidual, typename T>
void apply_row(T* y, const T* x, const T* residual, const Channels<T>& channels, std::int64_t columns) {
  const auto [mean, factor, bias] = channels;
#pragma GCC ivdep
  for (std::int64_t c = 0; c < columns; ++c) {
    T value = normalised(x[c] - mean[c], factor[c], bias[c]);
    if constexpr (kResidual) value += residual[c];
    if constexpr (kRelu) value = value <= T{0} ? T{0} : value;
    y[c] = value;
  }
}

template <Mask kMask, bool kAccumulate, typename T>
void input_row(T* dx, const T* grad, const T* x, const T* y, const Channels<T>& channels, const T* slope,
               const T* offset, std::int64_t columns) {
  const auto [mean, factor, bias] = channels;
#pragma GCC ivdep
  for (std::int64_t c = 0; c < columns; ++c) {
    const T centred = x[c] - mean[c];
    const T dz = masked<kMask>(grad[c], centred, y + c, factor[c], bias[c]);
    const T value = dz * factor[c] + (centred * slope[c] + offset[c]);
    dx[c] = kAccumulate ? dx[c] + value : value;
  }
}

}  // namespace

void batch_norm_channels(BatchNormPass& pass, const Tensor& variance, const Tensor& weight, double epsilon,
                         RunningStatistics& running) {
  with_float_type(variance.dtype(), [&]<typename T>() {
    T* const inverse = pass.inverse_deviation.data<T>();
    T* const factor = pass.factor.data<T>();
    const auto go_on = [&](Tensor& to, std::int64_t c, double now) {
      T& value = to.data<T>()[c];
      value = static_cast<T>((1 - running.momentum) * static_cast<double>(value) + running.momentum * now);
    };
    for (std::int64_t c = 0; c < variance.numel(); ++c) {
      const auto spread = static_cast<double>(variance.data<T>()[c]);
      inverse[c] = static_cast<T>(1 / std::sqrt(spread + epsilon));
      factor[c] = inverse[c] * weight.data<T>()[c];
      if (!running.mean.defined()) continue;
      go_on(running.mean, c, static_cast<double>(pass.mean.data<T>()[c]));
      go_on(running.variance, c, spread * running.unbiased);
    }
  });
}

void batch_norm_coefficients(Tensor& offset, Tensor& slope, const BatchNormPass& pass, const Tensor& sum_dz,
                             const Tensor& sum_dzx, double share, bool exact) {
  with_float_type(offset.dtype(), [&]<typename T>() {
    for (std::int64_t c = 0; c < offset.numel(); ++c) {
      const auto inverse = static_cast<double>(pass.inverse_deviation.data<T>()[c]);
      const double factor = -share * static_cast<double>(pass.factor.data<T>()[c]);
      offset.data<T>()[c] = static_cast<T>(factor * static_cast<double>(sum_dz.data<T>()[c]));
      const double once = factor * inverse * static_cast<double>(sum_dzx.data<T>()[c]);
      slope.data<T>()[c] = static_cast<T>(exact ? once : once * inverse);
    }
  });
}

void batch_norm(Tensor& y, const BatchNormPass& pass, const Tensor& residual) {
  with_float_type(y.dtype(), [&]<typename T>() {
    const std::int64_t columns = pass.x.shape()[1];
    const Channels<T> channels(pass);
    T* to = y.data<T>();
    const T* x = pass.x.data<T>();
    const T* r = residual.defined() ? residual.data<T>() : x;  // x: not read
    const auto run = [&]<bool kRelu, bool kResidual>() {
      for_rows(pass.x.shape()[0], columns,
               [&](std::int64_t at) { apply_row<kRelu, kResidual>(to + at, x + at, r + at, channels, columns); });
    };
    if (pass.relu) {
      residual.defined() ? run.template operator()<true, true>() : run.template operator()<true, false>();
    } else {
      residual.defined() ? run.template operator()<false, true>() : run.template operator()<false, false>();
    }
  });
}

void batch_norm_input(Tensor& dx, const BatchNormPass& pass, const Tensor& grad, const Tensor& y, const Tensor& slope,
                      const Tensor& offset, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    const std::int64_t columns = pass.x.shape()[1];
    const Channels<T> channels(pass);
    T* to = dx.data<T>();
    const T* g = grad.data<T>();
    const T* x = pass.x.data<T>();
    const T* a = slope.data<T>();
    const T* b = offset.data<T>();
    const Mask mask = mask_of(pass, y);
    const T* result = mask == Mask::FromY ? y.data<T>() : x;  // x: not read
    with_mask(mask, [&]<Mask kMask>() {
      for_rows(pass.x.shape()[0], columns, [&](std::int64_t at) {
        accumulate ? input_row<kMask, true>(to + at, g + at, x + at, result + at, channels, a, b, columns)
                   : input_row<kMask, false>(to + at, g + at, x + at, result + at, channels, a, b, columns);
      });
    });
  });
}

}  // namespace tutti::tensor::cpu
