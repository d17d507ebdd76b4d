// fill and copy for every type and any strides. Axes that lie alike in both tensors are joined first, so that most
// copies have one or two; a thread then writes one element, neighbours beside each other.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

#include <array>
#include <limits>
#include <type_traits>

namespace tutti::tensor::cuda {
namespace {

constexpr std::int64_t kMostAtOnce = std::int64_t{1} << 30;  // indices have 32 bits: divisions of 64 are slow

struct Layout {
  int rank = 0;
  unsigned extents[kMaxRank];
  std::int64_t out[kMaxRank];
  std::int64_t in[kMaxRank];
};

template <typename T>
constexpr T kLowest = std::numeric_limits<T>::min();
template <typename T>
constexpr T kHighest = std::numeric_limits<T>::max();

// As on the CPU: a floating value outside an integer type's range becomes the nearest one, NaN becomes 0.
template <typename To, typename From>
__device__ To convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (value != value) return 0;
    if (value <= static_cast<From>(kLowest<To>)) return kLowest<To>;
    if (value >= static_cast<From>(kHighest<To>)) return kHighest<To>;
  }
  return static_cast<To>(value);
}

template <typename To, typename From>
__global__ void copy_kernel(To* out, const From* in, unsigned count, Layout layout) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    auto rest = static_cast<unsigned>(i);
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (int axis = layout.rank - 1; axis > 0; --axis) {
      const unsigned at = rest % layout.extents[axis];
      rest /= layout.extents[axis];
      to += at * layout.out[axis];
      from += at * layout.in[axis];
    }
    out[to + rest * layout.out[0]] = convert<To>(in[from + rest * layout.in[0]]);
  }
}

template <typename T>
__global__ void fill_kernel(T* out, unsigned count, double value, Layout layout) {
  const T element = convert<T>(value);
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    auto rest = static_cast<unsigned>(i);
    std::int64_t to = 0;
    for (int axis = layout.rank - 1; axis > 0; --axis) {
      to += rest % layout.extents[axis] * layout.out[axis];
      rest /= layout.extents[axis];
    }
    out[to + rest * layout.out[0]] = element;
  }
}

// The axes of both without those of extent 1, neighbours joined where that changes no address.
Layout joined(const Tensor& out, const Tensor& in) {
  Layout layout;
  for (int axis = 0; axis < out.rank(); ++axis) {
    const std::int64_t extent = out.shape()[axis];
    if (extent == 1) continue;
    const int last = layout.rank - 1;
    if (last >= 0 && layout.out[last] == extent * out.stride(axis) && layout.in[last] == extent * in.stride(axis)) {
      layout.extents[last] *= static_cast<unsigned>(extent);
    } else {
      layout.extents[layout.rank++] = static_cast<unsigned>(extent);
    }
    layout.out[layout.rank - 1] = out.stride(axis);
    layout.in[layout.rank - 1] = in.stride(axis);
  }
  if (layout.rank == 0) layout = {.rank = 1, .extents = {1}, .out = {1}, .in = {1}};
  return layout;
}

// body(part of out, part of in) for parts of at most kMostAtOnce elements.
template <typename F>
void in_parts(Tensor& out, const Tensor& in, F&& body) {
  if (out.numel() <= kMostAtOnce) return body(out, in);
  int axis = 0;
  while (out.shape()[axis] == 1) ++axis;
  const std::int64_t half = out.shape()[axis] / 2;
  for (const auto& [start, length] : {std::pair{std::int64_t{0}, half}, {half, out.shape()[axis] - half}}) {
    Tensor part = out.narrow(axis, start, length);
    in_parts(part, in.narrow(axis, start, length), body);
  }
}

}  // namespace

void copy(Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  const Operation op("copy", out);
  if (out.dtype() == in.dtype() && out.is_contiguous() && in.is_contiguous()) {
    note(op.name(), op.device());
    launched(cudaMemcpyAsync(out.raw(), in.raw(), out.nbytes(), cudaMemcpyDeviceToDevice, op.stream()), op.name(),
             op.device(), op.stream());
    return;
  }
  in_parts(out, in, [&](Tensor& to, const Tensor& from) {
    const Layout layout = joined(to, from);
    const auto count = static_cast<unsigned>(to.numel());
    with_type(to.dtype(), [&]<typename To>() {
      with_type(from.dtype(), [&]<typename From>() {
        op.launch(op.over(count), copy_kernel<To, From>, address<To>(to), address<From>(from), count, layout);
      });
    });
  });
}

void fill(Tensor& out, double value) {
  if (out.numel() == 0) return;
  const Operation op("fill", out);
  if (value == 0 && out.is_contiguous()) {
    note(op.name(), op.device());
    launched(cudaMemsetAsync(out.raw(), 0, out.nbytes(), op.stream()), op.name(), op.device(), op.stream());
    return;
  }
  in_parts(out, out, [&](Tensor& to, const Tensor&) {
    const Layout layout = joined(to, to);
    const auto count = static_cast<unsigned>(to.numel());
    with_type(to.dtype(),
              [&]<typename T>() { op.launch(op.over(count), fill_kernel<T>, address<T>(to), count, value, layout); });
  });
}

}  // namespace tutti::tensor::cuda
