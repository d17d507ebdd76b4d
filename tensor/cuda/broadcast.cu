// Passes over (A, B, C) with one number for each (a, c), over rows with one number each, and over masks.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

#include <limits>

namespace tutti::tensor::cuda {
namespace {

// out[i] (+)= f(i). Index has 32 bits where they suffice: f divides by extents, which is slow with 64.
template <typename Index, typename T, typename F>
__global__ void index_kernel(T* out, std::int64_t count, bool accumulate, F f) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const T value = f(static_cast<Index>(i));
    out[i] = accumulate ? out[i] + value : value;
  }
}

template <typename T, typename F>
void map_indices(const Operation& op, Tensor& out, bool accumulate, const F& f) {
  T* const to = address<T>(out);
  if (out.numel() <= std::numeric_limits<std::int32_t>::max()) {
    op.launch(op.over(out.numel()), index_kernel<unsigned, T, F>, to, out.numel(), accumulate, f);
  } else {
    op.launch(op.over(out.numel()), index_kernel<std::int64_t, T, F>, to, out.numel(), accumulate, f);
  }
}

template <typename T>
struct BiasActivation {  // y[i] = relu?(y[i] + bias[i % columns])
  const T* y;
  const T* bias;
  std::int64_t columns;
  bool relu;
  template <typename Index>
  __device__ T operator()(Index i) const {
    const T value = y[i] + bias[i % static_cast<Index>(columns)];
    return relu && value <= T{0} ? T{0} : value;
  }
};

template <typename T>
struct SpreadMiddle {
  const T* a;
  std::int64_t columns;
  std::int64_t slab;  // B C
  T factor;
  template <typename Index>
  __device__ T operator()(Index i) const {
    const Index outer = i / static_cast<Index>(slab);
    return factor * a[outer * static_cast<Index>(columns) + i % static_cast<Index>(columns)];
  }
};

template <typename T>
struct ScaleRows {
  const T* a;
  const T* factors;
  std::int64_t columns;
  template <typename Index>
  __device__ T operator()(Index i) const {
    return a[i] * factors[i / static_cast<Index>(columns)];
  }
};

template <typename T>
struct MulChannels {
  const T* a;
  SpreadMiddle<T> factors;
  template <typename Index>
  __device__ T operator()(Index i) const {
    return a[i] * factors(i);
  }
};

template <typename T>
struct ApplyMask {  // NaN and infinity under the mask become NaN, as on the CPU
  const T* a;
  const std::uint8_t* mask;
  T factor;
  template <typename Index>
  __device__ T operator()(Index i) const {
    return a[i] * (static_cast<T>(mask[i]) * factor);
  }
};

}  // namespace

void bias_activation(Tensor& y, const Tensor& bias, bool relu) {
  if (!bias.defined()) {
    if (relu) cuda::relu(y, y);
    return;
  }
  const Operation op("bias_activation", y);
  with_float_type(y.dtype(), [&]<typename T>() {
    map_indices<T>(op, y, false, BiasActivation<T>{address<T>(y), address<T>(bias), y.shape()[1], relu});
  });
}

void spread_middle(Tensor& out, const Tensor& a, double factor, bool accumulate) {
  const Operation op("spread_middle", out);
  with_float_type(out.dtype(), [&]<typename T>() {
    const std::int64_t columns = out.shape()[2];
    map_indices<T>(op, out, accumulate,
                   SpreadMiddle<T>{address<T>(a), columns, out.shape()[1] * columns, static_cast<T>(factor)});
  });
}

void scale_rows(Tensor& out, const Tensor& a, const Tensor& factors, bool accumulate) {
  const Operation op("scale_rows", out);
  with_float_type(out.dtype(), [&]<typename T>() {
    map_indices<T>(op, out, accumulate, ScaleRows<T>{address<T>(a), address<T>(factors), a.shape()[1]});
  });
}

void mul_channels(Tensor& out, const Tensor& a, const Tensor& s, bool accumulate) {
  const Operation op("mul_channels", out);
  with_float_type(out.dtype(), [&]<typename T>() {
    const std::int64_t columns = a.shape()[2];
    map_indices<T>(op, out, accumulate,
                   MulChannels<T>{address<T>(a), {address<T>(s), columns, a.shape()[1] * columns, T{1}}});
  });
}

void apply_mask(Tensor& out, const Tensor& a, const Tensor& mask, double factor, bool accumulate) {
  const Operation op("apply_mask", out);
  with_float_type(out.dtype(), [&]<typename T>() {
    map_indices<T>(op, out, accumulate,
                   ApplyMask<T>{address<T>(a), address<std::uint8_t>(mask), static_cast<T>(factor)});
  });
}

}  // namespace tutti::tensor::cuda
