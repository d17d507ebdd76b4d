// relu6, silu, sigmoid and tanh. Eigen computes the exponentials, in pieces that stay in the first-level cache.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/packets.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

constexpr std::int64_t kPiece = 512;
constexpr std::int64_t kCurveGrain = kElementGrain / 4;  // an exponential costs more than an addition

// out = 1 / (1 + exp(-x)), at most kPiece elements. Eigen's exp saturates and does not promise to keep NaN: x is cut
// to where exp is finite, and what lies beyond is put right afterwards.
template <typename T>
void logistic(T* out, const T* x, std::int64_t count) {
  T work[kPiece];
  const T most = sizeof(T) == sizeof(float) ? T{88} : T{708};
  for (std::int64_t i = 0; i < count; ++i) {
    const T low = x[i] < -most ? -most : x[i];
    work[i] = -(low > most ? most : low);
  }
  exponentials(work, work, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = T{1} / (T{1} + work[i]);
    const T whole = x[i] < -most ? T{0} : value;
    out[i] = x[i] != x[i] ? x[i] : whole;
  }
}

// piece(from, count) over [0, total), on all threads.
template <typename F>
void for_pieces(std::int64_t total, F&& piece) {
  parallel_for(total, kCurveGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kPiece) piece(i, std::min(kPiece, end - i));
  });
}

template <typename T>
T clipped(T x) {
  const T low = x <= T{0} ? T{0} : x;  // NaN stays NaN
  return low >= T{6} ? T{6} : low;
}

template <typename T>
void curve_piece(T* y, const T* x, Curve curve, std::int64_t count) {
  T s[kPiece];
  switch (curve) {
    case Curve::Relu6:
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) y[i] = clipped(x[i]);
      return;
    case Curve::Silu:
      logistic(s, x, count);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * s[i];
      return;
    case Curve::Sigmoid:
      logistic(y, x, count);
      return;
    case Curve::Tanh:
      hyperbolic_tangents(y, x, count);
      return;
  }
}

// d[i] = dy/dx
template <typename T>
void slope_piece(T* d, const T* saved, Curve curve, std::int64_t count) {
  switch (curve) {
    case Curve::Relu6:
      for (std::int64_t i = 0; i < count; ++i) d[i] = saved[i] <= T{0} || saved[i] >= T{6} ? T{0} : T{1};
      return;
    case Curve::Silu:
      logistic(d, saved, count);
      for (std::int64_t i = 0; i < count; ++i) d[i] = d[i] * (T{1} + saved[i] * (T{1} - d[i]));
      return;
    case Curve::Sigmoid:
      for (std::int64_t i = 0; i < count; ++i) d[i] = saved[i] * (T{1} - saved[i]);
      return;
    case Curve::Tanh:
      for (std::int64_t i = 0; i < count; ++i) d[i] = T{1} - saved[i] * saved[i];
      return;
  }
}

}  // namespace

void curve(Tensor& y, const Tensor& x, Curve curve) {
  with_float_type(y.dtype(), [&]<typename T>() {
    T* to = y.data<T>();
    const T* from = x.data<T>();
    for_pieces(y.numel(),
               [&](std::int64_t begin, std::int64_t count) { curve_piece(to + begin, from + begin, curve, count); });
  });
}

void curve_backward(Tensor& dx, const Tensor& grad, const Tensor& saved, Curve curve, bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    T* to = dx.data<T>();
    const T* all = grad.data<T>();
    const T* from = saved.data<T>();
    for_pieces(dx.numel(), [&](std::int64_t begin, std::int64_t count) {
      T slope[kPiece];
      slope_piece(slope, from + begin, curve, count);
      T* out = to + begin;
      const T* g = all + begin;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) out[i] = accumulate ? out[i] + g[i] * slope[i] : g[i] * slope[i];
    });
  });
}

}  // namespace tutti::tensor::cpu
