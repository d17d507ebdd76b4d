// Dropout: a mask of bytes per sample from its keyed stream, and its application.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/keyed_stream.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

namespace tutti::tensor::cpu {
namespace {

// One number of the stream an element, in row-major order; kept when it is at least `threshold`.
void draw_row(std::uint8_t* row, std::int64_t length, KeyedStream stream, std::uint64_t threshold) {
  std::array<std::uint32_t, 1024> drawn;
  for (std::int64_t done = 0; done < length;) {
    const std::int64_t count = std::min(length - done, static_cast<std::int64_t>(drawn.size()));
    stream.fill(std::span(drawn).first(static_cast<std::size_t>(count)));
    const std::uint32_t* numbers = drawn.data();
    std::uint8_t* to = row + done;
    for (std::int64_t i = 0; i < count; ++i) to[i] = numbers[i] >= threshold ? 1 : 0;
    done += count;
  }
}

}  // namespace

void dropout_mask(Tensor& mask, const Tensor& keys, std::uint64_t layer, double p) {
  const std::int64_t rows = mask.shape()[0];
  const std::int64_t length = mask.shape()[1];
  const auto threshold = static_cast<std::uint64_t>(std::llround(p * 0x1p32));
  const auto* key = keys.data<std::int64_t>();
  auto* to = mask.data<std::uint8_t>();
  constexpr std::int64_t kDrawGrain = kElementGrain / 16;  // a number costs as much as many additions
  parallel_for(rows, kDrawGrain / std::max<std::int64_t>(1, length) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      draw_row(to + row * length, length, KeyedStream(std::bit_cast<std::uint64_t>(key[row]), layer), threshold);
    }
  });
}

// NaN and infinity under the mask become NaN, as in PyTorch: a lost NaN hides a diverged run.
void apply_mask(Tensor& out, const Tensor& a, const Tensor& mask, double factor, bool accumulate) {
  with_float_type(out.dtype(), [&]<typename T>() {
    T* to = out.data<T>();
    const T* from = a.data<T>();
    const auto* kept = mask.data<std::uint8_t>();
    const T f = static_cast<T>(factor);
    parallel_for(out.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      T* const line = to;
      const T* const values = from;
      const std::uint8_t* const bytes = kept;
      const T scale = f;
      if (accumulate) {
#pragma GCC ivdep
        for (std::int64_t i = begin; i < end; ++i) line[i] += values[i] * (static_cast<T>(bytes[i]) * scale);
      } else {
#pragma GCC ivdep
        for (std::int64_t i = begin; i < end; ++i) line[i] = values[i] * (static_cast<T>(bytes[i]) * scale);
      }
    });
  });
}

}  // namespace tutti::tensor::cpu
