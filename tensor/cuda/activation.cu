// relu6, silu, sigmoid and tanh, and their slopes.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

namespace tutti::tensor::cuda {
namespace {

template <typename T>
__device__ T logistic(T x) {
  return T{1} / (T{1} + exponential(-x));
}

template <typename T>
__device__ T value_of(Curve curve, T x) {
  switch (curve) {
    case Curve::Relu6: {
      const T low = x <= T{0} ? T{0} : x;  // NaN stays NaN
      return low >= T{6} ? T{6} : low;
    }
    case Curve::Silu:
      return x * logistic(x);
    case Curve::Sigmoid:
      return logistic(x);
    case Curve::Tanh:
      return hyperbolic_tangent(x);
  }
  return x;
}

// dy/dx; `saved` is x for silu, y for the others.
template <typename T>
__device__ T slope_of(Curve curve, T saved) {
  switch (curve) {
    case Curve::Relu6:
      return saved <= T{0} || saved >= T{6} ? T{0} : T{1};
    case Curve::Silu: {
      const T s = logistic(saved);
      return s * (T{1} + saved * (T{1} - s));
    }
    case Curve::Sigmoid:
      return saved * (T{1} - saved);
    case Curve::Tanh:
      return T{1} - saved * saved;
  }
  return saved;
}

template <typename T>
__global__ void curve_kernel(T* y, const T* x, std::int64_t count, bool wide, Curve curve) {
  std::int64_t done = 0;
  if (wide) {
    done = count / Pack<T>::kSize;
    for (std::int64_t i = first_index(); i < done; i += index_step()) {
      Pack<T> pack = reinterpret_cast<const Pack<T>*>(x)[i];
      for (T& value : pack.values) value = value_of(curve, value);
      reinterpret_cast<Pack<T>*>(y)[i] = pack;
    }
    done *= Pack<T>::kSize;
  }
  for (std::int64_t i = done + first_index(); i < count; i += index_step()) y[i] = value_of(curve, x[i]);
}

template <typename T>
__global__ void slope_kernel(T* dx, const T* grad, const T* saved, std::int64_t count, Curve curve, bool accumulate) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const T value = grad[i] * slope_of(curve, saved[i]);
    dx[i] = accumulate ? dx[i] + value : value;
  }
}

}  // namespace

void curve(Tensor& y, const Tensor& x, Curve curve) {
  const Operation op("curve", y);
  with_float_type(y.dtype(), [&]<typename T>() {
    const bool wide = all_aligned(address<T>(y), address<T>(x));
    const std::int64_t threads = wide ? y.numel() / Pack<T>::kSize + 1 : y.numel();
    op.launch(op.over(y.numel() == 0 ? 0 : threads), curve_kernel<T>, address<T>(y), address<T>(x), y.numel(), wide,
              curve);
  });
}

void curve_backward(Tensor& dx, const Tensor& grad, const Tensor& saved, Curve curve, bool accumulate) {
  const Operation op("curve_backward", dx);
  with_float_type(dx.dtype(), [&]<typename T>() {
    op.launch(op.over(dx.numel()), slope_kernel<T>, address<T>(dx), address<T>(grad), address<T>(saved), dx.numel(),
              curve, accumulate);
  });
}

}  // namespace tutti::tensor::cuda
