#include <tutti/tensor/cpu/conv_weights.h>

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

// The places (channel, tap) of a part, in the order of memory, as rows (tap, channel) of a panel.
class RowOfPlace {
 public:
  RowOfPlace(const WeightPart& part, std::int64_t taps, std::int64_t place)
      : depth_(part.depth), taps_(taps), channel_(place / taps), tap_(place % taps) {}
  std::int64_t operator*() const { return tap_ * depth_ + channel_; }
  RowOfPlace& operator++() {
    if (++tap_ == taps_) {
      tap_ = 0;
      ++channel_;
    }
    return *this;
  }

 private:
  std::int64_t depth_;
  std::int64_t taps_;
  std::int64_t channel_;
  std::int64_t tap_;
};

}  // namespace

// An output's weights are one line, (channel, tap): squares of lines and places in them are turned around.
template <typename T>
void pack_outputs(T* panel, const T* weights, const WeightExtents& extents, const WeightPart& part) {
  using S = Simd<T>;
  const std::int64_t line = extents.channels * extents.taps;
  const std::int64_t length = part.depth * extents.taps;
  for (std::int64_t v = 0; v < part.vectors; ++v) {
    const std::int64_t output = part.column + v * S::kLanes;
    const std::int64_t outputs = std::min(S::kLanes, extents.outputs - output);
    for (std::int64_t at = 0; at < length; at += S::kLanes) {
      const std::int64_t places = std::min(S::kLanes, length - at);
      const T* from = weights + output * line + part.deep * extents.taps + at;
      typename S::Vec square[S::kLanes];
      for (std::int64_t i = 0; i < S::kLanes; ++i) {
        square[i] = i < outputs ? load_up_to(from + i * line, places) : typename S::Vec{};
      }
      transpose_square<T>(square);
      RowOfPlace row(part, extents.taps, at);
      for (std::int64_t i = 0; i < places; ++i, ++row) {
        S::store(panel + (*row * part.vectors + v) * S::kLanes, square[i]);
      }
    }
  }
}

template <typename T>
void unpack_outputs(T* weights, const T* panel, const WeightExtents& extents, const WeightPart& part, bool accumulate) {
  using S = Simd<T>;
  const std::int64_t line = extents.channels * extents.taps;
  const std::int64_t length = part.depth * extents.taps;
  for (std::int64_t v = 0; v < part.vectors; ++v) {
    const std::int64_t output = part.column + v * S::kLanes;
    const std::int64_t outputs = std::min(S::kLanes, extents.outputs - output);
    for (std::int64_t at = 0; at < length; at += S::kLanes) {
      const std::int64_t places = std::min(S::kLanes, length - at);
      typename S::Vec square[S::kLanes];
      RowOfPlace row(part, extents.taps, at);
      for (std::int64_t i = 0; i < places; ++i, ++row) {
        square[i] = S::load(panel + (*row * part.vectors + v) * S::kLanes);
      }
      for (std::int64_t i = places; i < S::kLanes; ++i) square[i] = typename S::Vec{};
      transpose_square<T>(square);
      T* to = weights + output * line + part.deep * extents.taps + at;
      for (std::int64_t i = 0; i < outputs; ++i, to += line) {
        if (accumulate) square[i] += load_up_to(to, places);
        store_up_to(to, square[i], places);
      }
    }
  }
}

// A channel's taps are one short line: squares of channels and taps are turned around.
template <typename T>
void pack_channels(T* panel, const T* weights, const WeightExtents& extents, const WeightPart& part) {
  using S = Simd<T>;
  const auto to = [&](std::int64_t tap, std::int64_t place, std::int64_t v) {
    return panel + ((tap * part.depth + place) * part.vectors + v) * S::kLanes;
  };
  for (std::int64_t place = 0; place < part.depth; ++place) {
    const T* from = weights + (part.deep + place) * extents.channels * extents.taps;
    for (std::int64_t v = 0; v < part.vectors; ++v) {
      const std::int64_t channel = part.column + v * S::kLanes;
      const std::int64_t channels = std::min(S::kLanes, extents.channels - channel);
      if (extents.taps == 1) {
        S::store(to(0, place, v), load_up_to(from + channel, channels));
        continue;
      }
      for (std::int64_t tap = 0; tap < extents.taps; tap += S::kLanes) {
        const std::int64_t taps = std::min(S::kLanes, extents.taps - tap);
        typename S::Vec square[S::kLanes];
        for (std::int64_t i = 0; i < S::kLanes; ++i) {
          const T* line = from + (channel + i) * extents.taps + tap;
          __builtin_prefetch(line + extents.channels * extents.taps);  // the next place, which is far away
          square[i] = i < channels ? load_up_to(line, taps) : typename S::Vec{};
        }
        transpose_square<T>(square);
        for (std::int64_t i = 0; i < taps; ++i) S::store(to(tap + i, place, v), square[i]);
      }
    }
  }
}

template void pack_outputs(float*, const float*, const WeightExtents&, const WeightPart&);
template void pack_outputs(double*, const double*, const WeightExtents&, const WeightPart&);
template void pack_channels(float*, const float*, const WeightExtents&, const WeightPart&);
template void pack_channels(double*, const double*, const WeightExtents&, const WeightPart&);
template void unpack_outputs(float*, const float*, const WeightExtents&, const WeightPart&, bool);
template void unpack_outputs(double*, const double*, const WeightExtents&, const WeightPart&, bool);

}  // namespace tutti::tensor::cpu
