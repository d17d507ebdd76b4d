#include <tutti/tensor/cpu/conv_weights.h>
#include <tutti/tensor/thread_pool.h>

namespace tutti::tensor::cpu {
namespace {

// What is there of a vector's lanes.
template <typename T>
typename Simd<T>::Vec load_up_to(const T* from, std::int64_t count) {
  if (count >= Simd<T>::kLanes) return Simd<T>::load(from);
  return count > 0 ? Simd<T>::load_partial(from, count) : typename Simd<T>::Vec{};
}

template <typename T>
void store_up_to(T* to, typename Simd<T>::Vec value, std::int64_t count) {
  if (count >= Simd<T>::kLanes) {
    Simd<T>::store(to, value);
  } else {
    Simd<T>::store_partial(to, value, count);
  }
}

}  // namespace

// An output's weights are one line, (channel, tap): squares of lines and places in them are turned around.
template <typename T>
void pack_outputs(T* panel, const T* weights, const WeightExtents& extents, std::int64_t first, std::int64_t vectors) {
  using S = Simd<T>;
  const std::int64_t line = extents.channels * extents.taps;
  for (std::int64_t at = 0; at < line; at += S::kLanes) {
    const std::int64_t places = std::min(S::kLanes, line - at);
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t output = first + v * S::kLanes;
      typename S::Vec square[S::kLanes] = {};
      for (std::int64_t i = 0; i < std::min(S::kLanes, extents.outputs - output); ++i) {
        square[i] = load_up_to(weights + (output + i) * line + at, places);
      }
      transpose_square<T>(square);
      std::int64_t channel = at / extents.taps;
      std::int64_t tap = at % extents.taps;
      for (std::int64_t i = 0; i < places; ++i) {
        S::store(panel + ((tap * extents.channels + channel) * vectors + v) * S::kLanes, square[i]);
        if (++tap == extents.taps) {
          tap = 0;
          ++channel;
        }
      }
    }
  }
}

// A channel's taps are one short line: squares of channels and taps are turned around.
template <typename T>
void pack_channels(T* panel, const T* weights, const WeightExtents& extents, std::int64_t first, std::int64_t vectors) {
  using S = Simd<T>;
  for (std::int64_t output = 0; output < extents.outputs; ++output) {
    const T* from = weights + output * extents.channels * extents.taps;
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t channel = first + v * S::kLanes;
      const std::int64_t channels = std::min(S::kLanes, extents.channels - channel);
      if (extents.taps == 1) {
        S::store(panel + (output * vectors + v) * S::kLanes, load_up_to(from + channel, channels));
        continue;
      }
      for (std::int64_t tap = 0; tap < extents.taps; tap += S::kLanes) {
        const std::int64_t taps = std::min(S::kLanes, extents.taps - tap);
        typename S::Vec square[S::kLanes] = {};
        for (std::int64_t i = 0; i < channels; ++i) {
          square[i] = load_up_to(from + (channel + i) * extents.taps + tap, taps);
        }
        transpose_square<T>(square);
        for (std::int64_t i = 0; i < taps; ++i) {
          S::store(panel + (((tap + i) * extents.outputs + output) * vectors + v) * S::kLanes, square[i]);
        }
      }
    }
  }
}

template <typename T>
void unpack_outputs(T* weights, const T* rows, std::int64_t row_length, const WeightExtents& extents, bool accumulate) {
  using S = Simd<T>;
  const std::int64_t line = extents.channels * extents.taps;
  constexpr std::int64_t kGrain = 16;  // outputs: a square of float32
  parallel_for(extents.outputs, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t output = begin; output < end; output += S::kLanes) {
      const std::int64_t outputs = std::min(S::kLanes, end - output);
      for (std::int64_t at = 0; at < line; at += S::kLanes) {
        const std::int64_t places = std::min(S::kLanes, line - at);
        typename S::Vec square[S::kLanes] = {};
        std::int64_t channel = at / extents.taps;
        std::int64_t tap = at % extents.taps;
        for (std::int64_t i = 0; i < places; ++i) {
          square[i] = load_up_to(rows + (tap * extents.channels + channel) * row_length + output, outputs);
          if (++tap == extents.taps) {
            tap = 0;
            ++channel;
          }
        }
        transpose_square<T>(square);
        for (std::int64_t i = 0; i < outputs; ++i) {
          T* to = weights + (output + i) * line + at;
          if (accumulate) square[i] += load_up_to(to, places);
          store_up_to(to, square[i], places);
        }
      }
    }
  });
}

template void pack_outputs(float*, const float*, const WeightExtents&, std::int64_t, std::int64_t);
template void pack_outputs(double*, const double*, const WeightExtents&, std::int64_t, std::int64_t);
template void pack_channels(float*, const float*, const WeightExtents&, std::int64_t, std::int64_t);
template void pack_channels(double*, const double*, const WeightExtents&, std::int64_t, std::int64_t);
template void unpack_outputs(float*, const float*, std::int64_t, const WeightExtents&, bool);
template void unpack_outputs(double*, const double*, std::int64_t, const WeightExtents&, bool);

}  // namespace tutti::tensor::cpu
