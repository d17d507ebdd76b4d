// Passes that look at each element once. Plain loops: the compiler vectorises them.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

namespace tutti::tensor::cpu {
namespace {

// out[i] (+)= f(i) over all elements.
template <typename T, typename F>
void map(Tensor& out, bool accumulate, F f) {
  T* to = out.data<T>();
  parallel_for(out.numel(), kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    const F local = f;  // in registers: a pointer read through the closure would stop the vectoriser
    T* const line = to;
    if (accumulate) {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) line[i] += local(i);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) line[i] = local(i);
    }
  });
}

}  // namespace

void add(Tensor& out, const Tensor& a, const Tensor& b) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    map<T>(out, false, [=](std::int64_t i) { return x[i] + y[i]; });
  });
}

void mul(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    map<T>(out, accumulate, [=](std::int64_t i) { return x[i] * y[i]; });
  });
}

void sub(Tensor& out, const Tensor& a, const Tensor& b) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    map<T>(out, false, [=](std::int64_t i) { return x[i] - y[i]; });
  });
}

void div(Tensor& out, const Tensor& a, const Tensor& b) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    map<T>(out, false, [=](std::int64_t i) { return x[i] / y[i]; });
  });
}

void scale(Tensor& out, const Tensor& a, double factor, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T f = static_cast<T>(factor);
    map<T>(out, accumulate, [=](std::int64_t i) { return x[i] * f; });
  });
}

// NaN stays NaN, as in PyTorch: a lost NaN hides a diverged run.
void relu(Tensor& out, const Tensor& a) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    map<T>(out, false, [=](std::int64_t i) { return x[i] <= T{0} ? T{0} : x[i]; });
  });
}

void relu_backward(Tensor& out, const Tensor& grad, const Tensor& y, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T* g = grad.data<T>();
    const T* result = y.data<T>();
    map<T>(out, accumulate, [=](std::int64_t i) {
      const T passed = g[i];  // read in any case, so that there is no branch
      return result[i] <= T{0} ? T{0} : passed;
    });
  });
}

void broadcast(Tensor& out, const Tensor& scalar, double factor, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const T value = static_cast<T>(static_cast<double>(*scalar.data<T>()) * factor);
    map<T>(out, accumulate, [=](std::int64_t) { return value; });
  });
}

void bias_activation(Tensor& y, const Tensor& bias, bool relu) {
  if (!bias.defined()) {
    if (relu) cpu::relu(y, y);
    return;
  }
  with_float_type(y.dtype(), [&]<typename T>() {
    const std::int64_t columns = y.shape()[1];
    const T* b = bias.data<T>();
    T* to = y.data<T>();
    const std::int64_t grain = kElementGrain / (columns > 0 ? columns : 1) + 1;
    parallel_for(y.shape()[0], grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T* const line = to + row * columns;
        if (relu) {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < columns; ++i) {
            const T value = line[i] + b[i];
            line[i] = value <= T{0} ? T{0} : value;
          }
        } else {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < columns; ++i) line[i] += b[i];
        }
      }
    });
  });
}

void squared_error_backward(Tensor& da, const Tensor& a, const Tensor& b, const Tensor& grad, double factor,
                            bool accumulate) {
  with_float_type(da.dtype(), [&]<typename T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    const T f = static_cast<T>(2 * factor * grad.item());
    map<T>(da, accumulate, [=](std::int64_t i) { return f * (x[i] - y[i]); });
  });
}

}  // namespace tutti::tensor::cpu
