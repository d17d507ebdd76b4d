// Each channel of each sample by one factor, and the gradient of that factor. One sample is one thread's, so that sums
// do not depend on the number of threads.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <array>

namespace tutti::tensor::cpu {
namespace {

struct Extents {
  std::int64_t samples;
  std::int64_t pixels;  // of a sample
  std::int64_t channels;
};

Extents extents(const Tensor& images, const Tensor& factors) {
  const std::int64_t samples = factors.shape()[0];
  const std::int64_t channels = factors.shape()[1];
  const std::int64_t rows = samples * channels;
  return {samples, rows == 0 ? 0 : images.numel() / rows, channels};
}

std::int64_t grain(const Extents& e) { return kElementGrain / std::max<std::int64_t>(1, e.pixels * e.channels) + 1; }

// sums[c] = sum over pixels of a[p][c] b[p][c], for `width` channels. Pixels are added in blocks, whose sums are added:
// the rounding error then grows with the root of what it would.
template <typename T, std::size_t kWidth>
void sum_products(std::array<T, kWidth>& sums, const T* a, const T* b, std::int64_t width, const Extents& e) {
  constexpr std::int64_t kBlock = 64;
  sums.fill(T{0});
  for (std::int64_t first = 0; first < e.pixels; first += kBlock) {
    std::array<T, kWidth> block{};
    for (std::int64_t p = first; p < std::min(first + kBlock, e.pixels); ++p) {
      const T* const left = a + p * e.channels;
      const T* const right = b + p * e.channels;
      for (std::int64_t c = 0; c < width; ++c) block[static_cast<std::size_t>(c)] += left[c] * right[c];
    }
    for (std::size_t c = 0; c < kWidth; ++c) sums[c] += block[c];
  }
}

}  // namespace

void scale_channels(Tensor& out, const Tensor& a, const Tensor& factors, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    const Extents e = extents(a, factors);
    parallel_for(e.samples, grain(e), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin * e.pixels; row < end * e.pixels; ++row) {
        const T* const from = a.data<T>() + row * e.channels;
        const T* const factor = factors.data<T>() + row / e.pixels * e.channels;
        T* const to = out.data<T>() + row * e.channels;
        if (accumulate) {
#pragma GCC ivdep
          for (std::int64_t c = 0; c < e.channels; ++c) to[c] += from[c] * factor[c];
        } else {
#pragma GCC ivdep
          for (std::int64_t c = 0; c < e.channels; ++c) to[c] = from[c] * factor[c];
        }
      }
    });
  });
}

void channel_products(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    constexpr std::int64_t kWidth = 64;
    const Extents e = extents(a, out);
    parallel_for(e.samples, grain(e), [&](std::int64_t begin, std::int64_t end) {
      std::array<T, kWidth> sums;
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::int64_t c = 0; c < e.channels; c += kWidth) {
          const std::int64_t width = std::min(kWidth, e.channels - c);
          const std::int64_t start = n * e.pixels * e.channels + c;
          sum_products(sums, a.data<T>() + start, b.data<T>() + start, width, e);
          T* const to = out.data<T>() + n * e.channels + c;
          for (std::int64_t i = 0; i < width; ++i) {
            to[i] = (accumulate ? to[i] : T{0}) + sums[static_cast<std::size_t>(i)];
          }
        }
      }
    });
  });
}

}  // namespace tutti::tensor::cpu
