#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/simd.h>
#include <tutti/tensor/cpu/transposed_copy.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tutti::tensor::cpu {
namespace {

struct Axis {
  std::int64_t extent = 1;
  std::int64_t out = 0;  // stride
  std::int64_t in = 0;   // stride
};

// The axes longer than 1, outermost first; neighbours that run on into each other in both tensors are one.
struct Axes {
  std::array<Axis, kMaxRank> all;
  std::size_t count = 0;

  Axes(const Tensor& out, const Tensor& in) {
    for (int i = 0; i < out.rank(); ++i) {
      const Axis axis{out.shape()[i], out.stride(i), in.stride(i)};
      if (axis.extent == 1) continue;
      Axis* last = count > 0 ? &all[count - 1] : nullptr;
      if (last != nullptr && last->out == axis.extent * axis.out && last->in == axis.extent * axis.in) {
        *last = {last->extent * axis.extent, axis.out, axis.in};
      } else {
        all[count++] = axis;
      }
    }
  }

  void remove(std::size_t index) {
    std::move(all.begin() + static_cast<std::ptrdiff_t>(index) + 1, all.begin() + static_cast<std::ptrdiff_t>(count),
              all.begin() + static_cast<std::ptrdiff_t>(index));
    --count;
  }
};

// Rows of `out` along `across`, rows of `in` along `down`.
template <typename T>
struct Plane {
  Axis across;  // out stride 1
  Axis down;    // in stride 1
  T* out;
  const T* in;

  // At most a square of vectors, whose first corner is at (d, a).
  void copy_square(std::int64_t d, std::int64_t a) const {
    constexpr std::int64_t kLanes = Simd<T>::kLanes;
    const std::int64_t height = std::min(kLanes, down.extent - d);
    const std::int64_t width = std::min(kLanes, across.extent - a);
    const T* from = in + a * across.in + d;
    T* to = out + d * down.out + a;
    typename Simd<T>::Vec rows[kLanes];
    for (std::int64_t i = 0; i < width; ++i) {
      const T* line = from + i * across.in;
      rows[i] = height == kLanes ? Simd<T>::load(line) : Simd<T>::load_partial(line, height);
    }
    for (std::int64_t i = width; i < kLanes; ++i) rows[i] = typename Simd<T>::Vec{};
    transpose_square<T>(rows);
    for (std::int64_t i = 0; i < height; ++i) {
      T* line = to + i * down.out;
      width == kLanes ? Simd<T>::store(line, rows[i]) : Simd<T>::store_partial(line, rows[i], width);
    }
  }

  // Lines too short to be worth a square each, as of three channels.
  void copy_short_lines(std::int64_t d, std::int64_t height) const {
    for (std::int64_t i = d; i < d + height; ++i) {
      T* const line = out + i * down.out;
      for (std::int64_t a = 0; a < across.extent; ++a) line[a] = in[a * across.in + i];
    }
  }

  void copy_strip(std::int64_t d) const {
    const std::int64_t height = std::min(Simd<T>::kLanes, down.extent - d);
    if (height * 4 <= Simd<T>::kLanes) return copy_short_lines(d, height);
    for (std::int64_t a = 0; a < across.extent; a += Simd<T>::kLanes) copy_square(d, a);
  }
};

// All planes, on all threads: a strip of one plane is the unit.
template <typename T>
void copy_planes(Tensor& out, const Tensor& in, const Axes& rest, Axis across, Axis down) {
  T* to = out.data<T>();
  const T* from = in.data<T>();
  constexpr std::int64_t kLanes = Simd<T>::kLanes;
  const std::int64_t strips = (down.extent + kLanes - 1) / kLanes;
  const std::int64_t planes = out.numel() / (across.extent * down.extent);
  const std::int64_t grain = kElementGrain / 4 / (across.extent * kLanes) + 1;
  parallel_for(planes * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      Plane<T> plane{across, down, to, from};
      std::int64_t index = unit / strips;
      for (std::size_t axis = rest.count; axis-- > 0; index /= rest.all[axis].extent) {
        const std::int64_t at = index % rest.all[axis].extent;
        plane.out += at * rest.all[axis].out;
        plane.in += at * rest.all[axis].in;
      }
      plane.copy_strip(unit % strips * kLanes);
    }
  });
}

}  // namespace

bool transposed_copy(Tensor& out, const Tensor& in) {
  if (out.dtype() != in.dtype() || (out.dtype() != DType::Float32 && out.dtype() != DType::Float64)) return false;
  Axes axes(out, in);
  if (axes.count < 2) return false;
  const Axis across = axes.all[axes.count - 1];
  if (across.out != 1 || across.in == 1) return false;
  --axes.count;
  for (std::size_t i = 0; i < axes.count; ++i) {
    if (axes.all[i].in != 1) continue;
    const Axis down = axes.all[i];
    axes.remove(i);
    with_float_type(out.dtype(), [&]<typename T>() { copy_planes<T>(out, in, axes, across, down); });
    return true;
  }
  return false;
}

}  // namespace tutti::tensor::cpu
