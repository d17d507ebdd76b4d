// How a block of conv_gather.cu fetches its two tiles: from device memory into registers, and from there into shared
// memory, so that the next tile is on its way while one is multiplied. Include from device code only.
#pragma once

#include <tutti/tensor/cuda/conv_pass.h>
#include <tutti/tensor/cuda/product_tiles.h>

#include <cstdint>

namespace tutti::tensor::cuda {

/// Far outside every image, whatever a tap adds.
inline constexpr int kOutside = -(1 << 30);

__device__ inline bool inside(int position, int extent) {
  return static_cast<unsigned>(position) < static_cast<unsigned>(extent);
}

/// A position in the sums: which tap, which channel.
struct TapWalk {
  int channel;
  int column = 0;
  int row = 0;

  __device__ TapWalk(int start, int depth, int columns) : channel(0) { advance(start, depth, columns); }

  __device__ void advance(int count, int depth, int columns) {
    channel += count;
    if (channel < depth || columns == 0) return;  // a pass without taps reads nothing
    const int taps = channel / depth;
    channel -= taps * depth;
    column += taps;
    if (column < columns) return;
    row += column / columns;
    column %= columns;
  }
};

/// The left tile: kRows pixels, kTileDepth steps of their sums, a quad of steps at a time.
template <typename T, typename Shape>
class PixelTile {
 public:
  __device__ PixelTile(const ConvPass<T>& pass, int first_pixel, int group)
      : walk_(quad() * 4, pass.depth, pass.columns.taps) {
    TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
      const int pixel = first_pixel + row(i);
      const int line = pixel / pass.columns.pixels;
      const int column = pixel % pass.columns.pixels;
      const std::int64_t image = line / pass.rows.pixels;
      image_[i] = pass.from + image * pass.rows.from * pass.columns.from * pass.groups * pass.depth +
                  static_cast<std::int64_t>(group) * pass.depth;
      row_[i] = pixel < pass.pixels ? pass.rows.base + line % pass.rows.pixels * pass.rows.pixel_step : kOutside;
      column_[i] = pass.columns.base + column * pass.columns.pixel_step;
    }
  }

  __device__ void fetch(const ConvPass<T>& pass) {
    if (pass.vector) {
      TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
        const T* from = place(pass, walk_, i);
        held_[i] = from != nullptr ? *reinterpret_cast<const Quad<T>*>(from) : Quad<T>{};
      }
    } else {
      TapWalk walk = walk_;
      TUTTI_UNROLL for (int e = 0; e < 4; ++e) {
        TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
          const T* from = place(pass, walk, i);
          held_[i].v[e] = from != nullptr ? *from : T{0};
        }
        walk.advance(1, pass.depth, pass.columns.taps);
      }
    }
    walk_.advance(kTileDepth, pass.depth, pass.columns.taps);
  }

  __device__ void store(T* tile) const {
    TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
      *reinterpret_cast<Quad<T>*>(tile + row(i) * Shape::kRowPitch + quad() * 4) = held_[i];
    }
  }

 private:
  static constexpr int kQuads = kTileDepth / 4;
  static constexpr int kRowsAtOnce = kTileThreads / kQuads;
  static constexpr int kPasses = Shape::kRows / kRowsAtOnce;

  __device__ static int quad() { return static_cast<int>(threadIdx.x) % kQuads; }
  __device__ static int row(int pass) { return static_cast<int>(threadIdx.x) / kQuads + pass * kRowsAtOnce; }

  // Null where the image, or the sum, has ended.
  __device__ const T* place(const ConvPass<T>& pass, const TapWalk& walk, int i) const {
    const int y = row_[i] + walk.row * pass.rows.tap_step;
    const int x = column_[i] + walk.column * pass.columns.tap_step;
    if (walk.row >= pass.rows.taps || !inside(y, pass.rows.from) || !inside(x, pass.columns.from)) return nullptr;
    return image_[i] + (static_cast<std::int64_t>(y) * pass.columns.from + x) * pass.groups * pass.depth + walk.channel;
  }

  TapWalk walk_;
  const T* image_[kPasses];
  int row_[kPasses];
  int column_[kPasses];
  Quad<T> held_[kPasses];
};

/// The right tile: kTileDepth rows of the packed weights, kColumns of their columns.
template <typename T, typename Shape>
class WeightTile {
 public:
  __device__ WeightTile(const ConvPass<T>& pass, int first_column, int group)
      : column_(first_column + quad() * 4), walk_(row(0), pass.depth, pass.columns.taps) {
    const std::int64_t rows = static_cast<std::int64_t>(pass.kernel_rows) * pass.kernel_width * pass.depth;
    weights_ = pass.weights + group * rows * pass.padded_breadth + column_;
  }

  __device__ void fetch(const ConvPass<T>& pass) {
    TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
      TapWalk walk = walk_;
      walk.advance(i * kRowsAtOnce, pass.depth, pass.columns.taps);
      if (walk.row >= pass.rows.taps || column_ >= pass.padded_breadth) {
        held_[i] = Quad<T>{};
        continue;
      }
      const int kernel_row = pass.rows.kernel_first + walk.row * pass.rows.kernel_step;
      const int kernel_column = pass.columns.kernel_first + walk.column * pass.columns.kernel_step;
      const std::int64_t at =
          static_cast<std::int64_t>(kernel_row * pass.kernel_width + kernel_column) * pass.depth + walk.channel;
      held_[i] = *reinterpret_cast<const Quad<T>*>(weights_ + at * pass.padded_breadth);
    }
    walk_.advance(kTileDepth, pass.depth, pass.columns.taps);
  }

  __device__ void store(T* tile) const {
    TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
      *reinterpret_cast<Quad<T>*>(tile + row(i) * Shape::kPitchB + quad() * 4) = held_[i];
    }
  }

 private:
  static constexpr int kQuads = Shape::kColumns / 4;
  static constexpr int kRowsAtOnce = kTileThreads / kQuads;
  static constexpr int kPasses = kTileDepth / kRowsAtOnce;

  __device__ static int quad() { return static_cast<int>(threadIdx.x) % kQuads; }
  __device__ static int row(int pass) { return static_cast<int>(threadIdx.x) / kQuads + pass * kRowsAtOnce; }

  int column_;
  TapWalk walk_;
  const T* weights_;
  Quad<T> held_[kPasses];
};

}  // namespace tutti::tensor::cuda
