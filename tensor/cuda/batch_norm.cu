// Batch norm over x (M, C): the passes that write a row for a row. The sums are in batch_norm_sums.cu.
#include <tutti/tensor/cuda/batch_norm.h>
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/indices.h>
#include <tutti/tensor/cuda/product_tiles.h>

namespace tutti::tensor::cuda {
namespace {

template <typename T>
__global__ void prepare_channels(T* inverse, T* factor, const T* variance, const T* weight, double epsilon, int count,
                                 const T* mean, T* running_mean, T* running_variance, double momentum,
                                 double unbiased) {
  const std::int64_t c = first_index();
  if (c >= count) return;
  const auto spread = static_cast<double>(variance[c]);
  inverse[c] = static_cast<T>(1 / sqrt(spread + epsilon));
  factor[c] = inverse[c] * weight[c];
  if (running_mean == nullptr) return;
  const auto go_on = [&](T& value, double now) {
    value = static_cast<T>((1 - momentum) * static_cast<double>(value) + momentum * now);
  };
  go_on(running_mean[c], static_cast<double>(mean[c]));
  go_on(running_variance[c], spread * unbiased);
}

template <typename T>
__global__ void coefficients(T* offset, T* slope, const T* inverse, const T* factor, const T* sum_dz, const T* sum_dzx,
                             double share, int count) {
  const std::int64_t c = first_index();
  if (c >= count) return;
  const double all = -share * static_cast<double>(factor[c]);
  const auto s = static_cast<double>(inverse[c]);
  offset[c] = static_cast<T>(all * static_cast<double>(sum_dz[c]));
  slope[c] = static_cast<T>(all * s * static_cast<double>(sum_dzx[c]) * s);
}

// kLanes neighbouring channels of an element at `at`, read and written as one.
template <int kLanes, typename T>
struct Lanes {
  T v[kLanes];

  __device__ explicit Lanes(const T* from) {
    if constexpr (kLanes == 4) {
      const auto quad = *reinterpret_cast<const Quad<T>*>(from);
      TUTTI_UNROLL for (int lane = 0; lane < kLanes; ++lane) v[lane] = quad.v[lane];
    } else {
      v[0] = *from;
    }
  }
  __device__ void store(T* to) const {
    if constexpr (kLanes == 4) {
      *reinterpret_cast<Quad<T>*>(to) = {{v[0], v[1], v[2], v[3]}};
    } else {
      *to = v[0];
    }
  }
};

template <int kLanes, typename T>
__global__ void __launch_bounds__(kThreads)
    normalise(T* y, const T* x, const T* residual, Channels<T> channels, bool relu, int columns, std::int64_t count) {
  const std::int64_t at = first_index() * kLanes;
  if (at >= count) return;
  int c = 0;
  split(at, columns, c);
  Lanes<kLanes, T> value(x + at);
  const Lanes<kLanes, T> mean(channels.mean + c), factor(channels.factor + c), bias(channels.bias + c);
  TUTTI_UNROLL for (int i = 0; i < kLanes; ++i) value.v[i] = normalised(value.v[i] - mean.v[i], factor.v[i], bias.v[i]);
  if (residual != nullptr) {
    const Lanes<kLanes, T> more(residual + at);
    TUTTI_UNROLL for (int i = 0; i < kLanes; ++i) value.v[i] += more.v[i];
  }
  if (relu) {
    TUTTI_UNROLL for (int i = 0; i < kLanes; ++i) value.v[i] = value.v[i] <= T{0} ? T{0} : value.v[i];
  }
  value.store(y + at);
}

template <typename T>
struct InputPass {
  T* dx;
  const T* grad;
  const T* x;
  const T* y;  // x unless Mask::FromY reads it
  Channels<T> channels;
  const T* slope;
  const T* offset;
  int columns;
  std::int64_t count;
  bool accumulate;
};

template <Mask kMask, int kLanes, typename T>
__global__ void __launch_bounds__(kThreads) input_gradient(InputPass<T> pass) {
  const std::int64_t at = first_index() * kLanes;
  if (at >= pass.count) return;
  int c = 0;
  split(at, pass.columns, c);
  const Lanes<kLanes, T> grad(pass.grad + at), x(pass.x + at), y(pass.y + at);
  const Lanes<kLanes, T> mean(pass.channels.mean + c), factor(pass.channels.factor + c), bias(pass.channels.bias + c);
  const Lanes<kLanes, T> slope(pass.slope + c), offset(pass.offset + c);
  Lanes<kLanes, T> dx(pass.accumulate ? pass.dx + at : pass.grad + at);  // the latter: not used
  TUTTI_UNROLL for (int i = 0; i < kLanes; ++i) {
    const T centred = x.v[i] - mean.v[i];
    const T dz = masked<kMask>(grad.v[i], centred, &y.v[i], factor.v[i], bias.v[i]);
    const T value = dz * factor.v[i] + (centred * slope.v[i] + offset.v[i]);
    dx.v[i] = pass.accumulate ? dx.v[i] + value : value;
  }
  dx.store(pass.dx + at);
}

// Whether four channels may be read at once at all of these addresses.
template <typename... Pointers>
bool in_quads(std::int64_t columns, const Pointers*... pointers) {
  return columns % 4 == 0 && all_aligned(pointers...);
}

}  // namespace

void batch_norm_channels(BatchNormPass& pass, const Tensor& variance, const Tensor& weight, double epsilon,
                         RunningStatistics& running) {
  const Operation op("batch_norm_channels", variance);
  with_float_type(variance.dtype(), [&]<typename T>() {
    const bool learns = running.mean.defined();
    op.launch(thread_each(variance.numel()), prepare_channels<T>, address<T>(pass.inverse_deviation),
              address<T>(pass.factor), address<T>(variance), address<T>(weight), epsilon,
              static_cast<int>(variance.numel()), address<T>(pass.mean), learns ? address<T>(running.mean) : nullptr,
              learns ? address<T>(running.variance) : nullptr, running.momentum, running.unbiased);
  });
}

void batch_norm_coefficients(Tensor& offset, Tensor& slope, const BatchNormPass& pass, const Tensor& sum_dz,
                             const Tensor& sum_dzx, double share, bool) {
  const Operation op("batch_norm_coefficients", offset);
  with_float_type(offset.dtype(), [&]<typename T>() {
    op.launch(thread_each(offset.numel()), coefficients<T>, address<T>(offset), address<T>(slope),
              address<T>(pass.inverse_deviation), address<T>(pass.factor), address<T>(sum_dz), address<T>(sum_dzx),
              share, static_cast<int>(offset.numel()));
  });
}

void batch_norm(Tensor& y, const BatchNormPass& pass, const Tensor& residual) {
  const Operation op("batch_norm", y);
  with_float_type(y.dtype(), [&]<typename T>() {
    const auto columns = static_cast<int>(pass.x.shape()[1]);
    const Channels<T> channels(pass);
    T* const to = address<T>(y);
    const T* const x = address<T>(pass.x);
    const T* const r = address_or_null<T>(residual);
    if (in_quads(columns, to, x, r, channels.mean, channels.factor, channels.bias)) {
      op.launch(thread_each(y.numel() / 4), normalise<4, T>, to, x, r, channels, pass.relu, columns, y.numel());
    } else {
      op.launch(thread_each(y.numel()), normalise<1, T>, to, x, r, channels, pass.relu, columns, y.numel());
    }
  });
}

void batch_norm_input(Tensor& dx, const BatchNormPass& pass, const Tensor& grad, const Tensor& y, const Tensor& slope,
                      const Tensor& offset, bool accumulate) {
  const Operation op("batch_norm_input", dx);
  with_float_type(dx.dtype(), [&]<typename T>() {
    const Mask mask = mask_of(pass, y);
    const InputPass<T> input{.dx = address<T>(dx),
                             .grad = address<T>(grad),
                             .x = address<T>(pass.x),
                             .y = address<T>(mask == Mask::FromY ? y : pass.x),
                             .channels = Channels<T>(pass),
                             .slope = address<T>(slope),
                             .offset = address<T>(offset),
                             .columns = static_cast<int>(pass.x.shape()[1]),
                             .count = dx.numel(),
                             .accumulate = accumulate};
    const bool quads = in_quads(input.columns, input.dx, input.grad, input.x, input.y, input.channels.mean,
                                input.channels.factor, input.channels.bias, input.slope, input.offset);
    with_mask(mask, [&]<Mask kMask>() {
      if (quads) {
        op.launch(thread_each(input.count / 4), input_gradient<kMask, 4, T>, input);
      } else {
        op.launch(thread_each(input.count), input_gradient<kMask, 1, T>, input);
      }
    });
  });
}

}  // namespace tutti::tensor::cuda
