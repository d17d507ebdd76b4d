// Passes that look at each element once. Bound by memory: 16 bytes a load where addresses allow it.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

namespace tutti::tensor::cuda {
namespace {

template <typename T, typename F, typename... Packs>
__device__ Pack<T> map_pack(const F& f, const Packs&... packs) {
  Pack<T> result;
  for (int i = 0; i < Pack<T>::kSize; ++i) result.values[i] = f(packs.values[i]...);
  return result;
}

// out[i] (+)= f(in[i]...). An input may be `out` itself: a thread reads what it overwrites, and nothing else.
template <typename T, typename F, typename... In>
__global__ void map_kernel(T* out, std::int64_t count, bool accumulate, bool wide, F f, In... in) {
  std::int64_t done = 0;
  if (wide) {
    const std::int64_t packs = count / Pack<T>::kSize;
    auto* const to = reinterpret_cast<Pack<T>*>(out);
    for (std::int64_t i = first_index(); i < packs; i += index_step()) {
      Pack<T> result = map_pack<T>(f, reinterpret_cast<const Pack<T>*>(in)[i]...);
      if (accumulate) {
        const Pack<T> before = to[i];
        for (int k = 0; k < Pack<T>::kSize; ++k) result.values[k] += before.values[k];
      }
      to[i] = result;
    }
    done = packs * Pack<T>::kSize;
  }
  for (std::int64_t i = done + first_index(); i < count; i += index_step()) {
    const T value = f(in[i]...);
    out[i] = accumulate ? out[i] + value : value;
  }
}

template <typename T, typename F, typename... In>
void map(const Operation& op, Tensor& out, bool accumulate, F f, const In&... in) {
  T* const to = address<T>(out);
  const bool wide = all_aligned(to, address<T>(in)...);
  const std::int64_t threads = wide ? (out.numel() + Pack<T>::kSize - 1) / Pack<T>::kSize : out.numel();
  op.launch(op.over(threads), map_kernel<T, F, decltype(address<T>(in))...>, to, out.numel(), accumulate, wide, f,
            address<T>(in)...);
}

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Subtract {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};
struct Divide {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a / b;
  }
};
template <typename T>
struct Scale {
  T factor;
  __device__ T operator()(T a) const { return a * factor; }
};
struct Relu {  // NaN stays NaN
  template <typename T>
  __device__ T operator()(T a) const {
    return a <= T{0} ? T{0} : a;
  }
};
struct ReluSlope {
  template <typename T>
  __device__ T operator()(T grad, T y) const {
    return y <= T{0} ? T{0} : grad;
  }
};
template <typename T>
struct Broadcast {
  const T* scalar;
  double factor;
  __device__ T operator()() const { return static_cast<T>(static_cast<double>(*scalar) * factor); }
};
template <typename T>
struct SquaredErrorSlope {
  const T* grad;
  double factor;
  __device__ T operator()(T a, T b) const { return static_cast<T>(2 * factor * static_cast<double>(*grad)) * (a - b); }
};

}  // namespace

void add(Tensor& out, const Tensor& a, const Tensor& b) {
  const Operation op("add", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, false, Add{}, a, b); });
}

void sub(Tensor& out, const Tensor& a, const Tensor& b) {
  const Operation op("sub", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, false, Subtract{}, a, b); });
}

void mul(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  const Operation op("mul", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, accumulate, Multiply{}, a, b); });
}

void div(Tensor& out, const Tensor& a, const Tensor& b) {
  const Operation op("div", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, false, Divide{}, a, b); });
}

void scale(Tensor& out, const Tensor& a, double factor, bool accumulate) {
  const Operation op("scale", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, accumulate, Scale<T>{static_cast<T>(factor)}, a); });
}

void relu(Tensor& out, const Tensor& a) {
  const Operation op("relu", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, false, Relu{}, a); });
}

void relu_backward(Tensor& out, const Tensor& grad, const Tensor& y, bool accumulate) {
  const Operation op("relu_backward", out);
  with_float_type(out.dtype(), [&]<typename T>() { map<T>(op, out, accumulate, ReluSlope{}, grad, y); });
}

void broadcast(Tensor& out, const Tensor& scalar, double factor, bool accumulate) {
  const Operation op("broadcast", out);
  with_float_type(out.dtype(), [&]<typename T>() {
    map<T>(op, out, accumulate, Broadcast<T>{address<T>(scalar), factor});
  });
}

void squared_error_backward(Tensor& da, const Tensor& a, const Tensor& b, const Tensor& grad, double factor,
                            bool accumulate) {
  const Operation op("squared_error_backward", da);
  with_float_type(da.dtype(), [&]<typename T>() {
    map<T>(op, da, accumulate, SquaredErrorSlope<T>{address<T>(grad), factor}, a, b);
  });
}

}  // namespace tutti::tensor::cuda
