// The gradient of a convolution's weights: dw (tap, channel; output) = sum over pixels of x dy. There are few weights
// and many pixels, so the pixels are cut into parts that are summed at the same time and added up by a second kernel.
#include <tutti/tensor/cuda/conv_gather.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/cuda/product_tiles.h>
#include <tutti/tensor/products.h>

#include <algorithm>

namespace tutti::tensor::cuda {
namespace {

// Far outside every image, whatever a pixel adds.
constexpr int kNowhere = -(1 << 30);

// Both tiles take a pixel a row. A thread holds quads of fixed columns and walks down the pixels.
template <typename T, typename Shape>
class PixelPairs {
 public:
  static_assert(Shape::kRows == Shape::kColumns, "both tiles are loaded by one walk over the pixels");

  __device__ PixelPairs(const ConvWeightPass<T>& pass, int first_row, int first_column, int group, int begin, int end)
      : next_(begin + row(0)), end_(end), output_(first_column + quad() * 4) {
    x_ = pass.x + static_cast<std::int64_t>(group) * pass.channels;
    dy_ = pass.dy + static_cast<std::int64_t>(group) * pass.outputs + output_;
    TUTTI_UNROLL for (int e = 0; e < 4; ++e) {
      const int at = first_row + quad() * 4 + e;
      const int tap = at / pass.channels;
      channel_[e] = at % pass.channels;
      row_[e] = tap < pass.taps ? tap / pass.columns.taps * pass.rows.tap_step + pass.rows.base : kNowhere;
      column_[e] = tap % pass.columns.taps * pass.columns.tap_step + pass.columns.base;
    }
  }

  __device__ void fetch(const ConvWeightPass<T>& pass) {
    TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
      const int pixel = next_ + i * kRowsAtOnce;
      const bool there = pixel < end_;
      fetch_x(pass, there ? pixel : 0, there, i);
      fetch_dy(pass, pixel, there, i);
    }
    next_ += kTileDepth;
  }

  __device__ void store(T* a, T* b) const {
    TUTTI_UNROLL for (int i = 0; i < kPasses; ++i) {
      *reinterpret_cast<Quad<T>*>(a + row(i) * Shape::kDepthPitch + quad() * 4) = from_x_[i];
      *reinterpret_cast<Quad<T>*>(b + row(i) * Shape::kPitchB + quad() * 4) = from_dy_[i];
    }
  }

 private:
  static constexpr int kQuads = Shape::kRows / 4;
  static constexpr int kRowsAtOnce = kTileThreads / kQuads;
  static constexpr int kPasses = kTileDepth / kRowsAtOnce;

  __device__ static int quad() { return static_cast<int>(threadIdx.x) % kQuads; }
  __device__ static int row(int pass) { return static_cast<int>(threadIdx.x) / kQuads + pass * kRowsAtOnce; }

  __device__ void fetch_x(const ConvWeightPass<T>& pass, int pixel, bool there, int i) {
    const int line = pixel / pass.columns.pixels;
    const int y = line % pass.rows.pixels * pass.rows.pixel_step;
    const int x = pixel % pass.columns.pixels * pass.columns.pixel_step;
    const std::int64_t image = line / pass.rows.pixels;
    const auto place = [&](int e) -> const T* {
      const auto down = static_cast<unsigned>(y + row_[e]);
      const auto along = static_cast<unsigned>(x + column_[e]);
      if (!there || down >= static_cast<unsigned>(pass.rows.from) ||
          along >= static_cast<unsigned>(pass.columns.from)) {
        return nullptr;
      }
      return x_ + ((image * pass.rows.from + down) * pass.columns.from + along) * pass.groups * pass.channels +
             channel_[e];
    };
    if (pass.vector_x) {
      const T* from = place(0);
      from_x_[i] = from != nullptr ? *reinterpret_cast<const Quad<T>*>(from) : Quad<T>{};
      return;
    }
    TUTTI_UNROLL for (int e = 0; e < 4; ++e) {
      const T* from = place(e);
      from_x_[i].v[e] = from != nullptr ? *from : T{0};
    }
  }

  __device__ void fetch_dy(const ConvWeightPass<T>& pass, int pixel, bool there, int i) {
    const T* from = dy_ + static_cast<std::int64_t>(pixel) * pass.groups * pass.outputs;
    if (pass.vector_dy) {
      const bool inside = there && output_ < pass.outputs;
      from_dy_[i] = inside ? *reinterpret_cast<const Quad<T>*>(from) : Quad<T>{};
      return;
    }
    TUTTI_UNROLL for (int e = 0; e < 4; ++e) from_dy_[i].v[e] = there && output_ + e < pass.outputs ? from[e] : T{0};
  }

  int next_;
  int end_;
  int output_;
  const T* x_;
  const T* dy_;
  int channel_[4];
  int row_[4];
  int column_[4];
  Quad<T> from_x_[kPasses];
  Quad<T> from_dy_[kPasses];
};

template <typename Tile>
__global__ void __launch_bounds__(kTileThreads) weight_parts(ConvWeightPass<typename Tile::Value> pass) {
  using T = typename Tile::Value;
  using Shape = typename Tile::Shape;
  alignas(32) __shared__ T a[Shape::kSizeA];
  alignas(32) __shared__ T b[Shape::kSizeB];
  alignas(32) __shared__ T stage[Tile::kStageSize];
  const int group = static_cast<int>(blockIdx.z) % pass.groups;
  const int part = static_cast<int>(blockIdx.z) / pass.groups;
  const int first_row = static_cast<int>(blockIdx.x) * Shape::kRows;
  const int first_column = static_cast<int>(blockIdx.y) * Shape::kColumns;
  const int begin = part * pass.part;
  const int end = pass.pixels - begin < pass.part ? pass.pixels : begin + pass.part;
  Tile tile;
  PixelPairs<T, Shape> pairs(pass, first_row, first_column, group, begin, end);
  if (begin < end) pairs.fetch(pass);
  for (int k = begin; k < end; k += kTileDepth) {
    pairs.store(a, b);
    __syncthreads();
    if (k + kTileDepth < end) pairs.fetch(pass);
    tile.template multiply<TileOrder::Depths>(a, b);
    __syncthreads();
  }
  const int rows = pass.taps * pass.channels;
  T* const to = pass.sums + static_cast<std::int64_t>(blockIdx.z) * rows * pass.outputs;
  tile.for_each(stage, [&](int row, int column, T sum) {
    if (first_row + row >= rows || first_column + column >= pass.outputs) return;
    to[static_cast<std::int64_t>(first_row + row) * pass.outputs + first_column + column] = sum;
  });
}

// The pixels are cut so that about this many blocks are at work, twice what an H100 has processors: a number of its
// own, not the card's, so that the sums are the same on every card. No part is shorter than its start-up is worth.
constexpr int kWantedBlocks = 264;
constexpr int kShortestPart = 16 * kTileDepth;

int cut(int extent, int tile) { return (extent + tile - 1) / tile; }

// Runs the tiles of one kind; returns the sums (parts, groups * taps * channels * outputs).
template <typename Tile>
Tensor run_parts(const Operation& op, ConvWeightPass<typename Tile::Value> pass, const Tensor& like) {
  using T = typename Tile::Value;
  using Shape = typename Tile::Shape;
  const int rows = cut(pass.taps * pass.channels, Shape::kRows);
  const int columns = cut(pass.outputs, Shape::kColumns);
  const std::int64_t tiles = std::int64_t{rows} * columns * pass.groups;
  const auto wanted = static_cast<int>(std::max<std::int64_t>(1, kWantedBlocks / tiles));
  pass.part = std::max(cut(cut(pass.pixels, wanted), kTileDepth) * kTileDepth, kShortestPart);
  const int parts = cut(pass.pixels, pass.part);
  Tensor sums = Tensor::empty({parts, like.numel()}, like.dtype(), like.device());
  pass.sums = address<T>(sums);
  op.launch({.blocks = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(columns),
                            static_cast<unsigned>(pass.groups * parts)),
             .threads = kTileThreads},
            weight_parts<Tile>, pass);
  return sums;
}

Tensor run(const Operation& op, const ConvWeightPass<double>& pass, const Tensor& like) {
  return run_parts<PlainTile<double, 64, 64>>(op, pass, like);
}

Tensor run(const Operation& op, const ConvWeightPass<float>& pass, const Tensor& like) {
  const bool large = pass.outputs > 64 && pass.taps * pass.channels > 64;
#if defined(__CUDACC__)
  if (float32_products() != Float32Products::Full) {
    return large ? run_parts<TensorTile<128, 128>>(op, pass, like) : run_parts<TensorTile<64, 64>>(op, pass, like);
  }
#endif
  return large ? run_parts<PlainTile<float, 128, 128>>(op, pass, like)
               : run_parts<PlainTile<float, 64, 64>>(op, pass, like);
}

}  // namespace

void gathered_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents,
                              bool accumulate) {
  const Operation op("conv2d_weight_gradient", dw);
  with_float_type(dw.dtype(), [&]<typename T>() {
    const ConvWeightPass<T> pass{.x = address<T>(x),
                                 .dy = address<T>(dy),
                                 .sums = nullptr,
                                 .rows = extents.rows.forward(),
                                 .columns = extents.columns.forward(),
                                 .pixels = extents.batch * extents.rows.output * extents.columns.output,
                                 .part = 0,
                                 .channels = extents.channels,
                                 .outputs = extents.outputs,
                                 .groups = extents.groups,
                                 .taps = extents.taps(),
                                 .vector_x = extents.channels % 4 == 0 && all_aligned(address<T>(x)),
                                 .vector_dy = extents.outputs % 4 == 0 && all_aligned(address<T>(dy))};
    add_weight_parts(dw, run(op, pass, dw), extents, accumulate);
  });
}

}  // namespace tutti::tensor::cuda
