// fill and copy for every type and any strides.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/transposed_copy.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tutti::tensor::cpu {
namespace {

// A floating value outside an integer type's range is undefined behaviour in C++; here it becomes the nearest value the
// type has, and NaN becomes 0. Integers wrap, as in PyTorch.
template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(value);
}

// Calls row(out offset, in offset) for every index of all axes but the last, in row-major order.
template <typename F>
void for_each_row(const Tensor& out, const Tensor& in, F&& row) {
  const int outer = out.rank() - 1;
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t out_at = 0;
  std::int64_t in_at = 0;
  while (true) {
    row(out_at, in_at);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      out_at += out.stride(axis);
      in_at += in.stride(axis);
      if (++index[i] < out.shape()[axis]) break;
      out_at -= index[i] * out.stride(axis);
      in_at -= index[i] * in.stride(axis);
      index[i] = 0;
    }
    if (axis < 0) return;
  }
}

template <typename To, typename From>
void copy_strided(To* out, const From* in, const Tensor& out_view, const Tensor& in_view) {
  if (out_view.rank() == 0) {
    *out = convert<To>(*in);
    return;
  }
  const std::int64_t length = out_view.shape()[-1];
  const std::int64_t out_step = out_view.stride(-1);
  const std::int64_t in_step = in_view.stride(-1);
  for_each_row(out_view, in_view, [&](std::int64_t out_at, std::int64_t in_at) {
    To* to = out + out_at;
    const From* from = in + in_at;
    if (out_step == 1 && in_step == 1) {
      for (std::int64_t i = 0; i < length; ++i) to[i] = convert<To>(from[i]);
    } else {
      for (std::int64_t i = 0; i < length; ++i) to[i * out_step] = convert<To>(from[i * in_step]);
    }
  });
}

}  // namespace

void copy(Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  if (out.dtype() == in.dtype() && out.is_contiguous() && in.is_contiguous()) {
    auto* to = static_cast<std::byte*>(out.raw());
    const auto* from = static_cast<const std::byte*>(in.raw());
    const auto bytes = static_cast<std::int64_t>(out.nbytes());
    parallel_for(bytes, kElementGrain * 4, [&](std::int64_t begin, std::int64_t end) {
      std::memmove(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
    return;
  }
  if (transposed_copy(out, in)) return;
  with_type(out.dtype(), [&]<typename To>() {
    with_type(in.dtype(), [&]<typename From>() { copy_strided<To, From>(out.data<To>(), in.data<From>(), out, in); });
  });
}

void fill(Tensor& out, double value) {
  if (out.numel() == 0) return;
  with_type(out.dtype(), [&]<typename T>() {
    const T element = convert<T>(value);
    T* to = out.data<T>();
    if (out.is_contiguous()) {
      parallel_for(out.numel(), kElementGrain,
                   [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, element); });
      return;
    }
    const std::int64_t length = out.shape()[-1];
    const std::int64_t step = out.stride(-1);
    for_each_row(out, out, [&](std::int64_t at, std::int64_t) {
      for (std::int64_t i = 0; i < length; ++i) to[at + i * step] = element;
    });
  });
}

}  // namespace tutti::tensor::cpu
