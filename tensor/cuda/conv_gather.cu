// conv2d and the gradient of its input as a product whose left side is gathered pixel by pixel while it is multiplied
// (implicit GEMM; Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014). While a tile is multiplied,
// the next one is on its way into registers.
#include <tutti/tensor/cuda/conv_gather.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/cuda/product_tiles.h>
#include <tutti/tensor/products.h>

namespace tutti::tensor::cuda {
namespace {

// Far outside every image, whatever a tap adds.
constexpr int kOutside = -(1 << 30);

__device__ bool inside(int position, int extent) {
  return static_cast<unsigned>(position) < static_cast<unsigned>(extent);
}

// A position in the sums: which tap, which channel.
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

// The left tile: kRows pixels, kTileDepth steps of their sums, a quad of steps at a time.
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

// The right tile: kTileDepth rows of the packed weights, kColumns of their columns.
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

// Where pixel `pixel` of the pass lies in `to`, channel 0 of the group; -1 behind the last one.
template <typename T>
__device__ std::int64_t written_at(const ConvPass<T>& pass, int pixel, int group) {
  if (pixel >= pass.pixels) return -1;
  const int line = pixel / pass.columns.pixels;
  const std::int64_t image = line / pass.rows.pixels;
  const int y = pass.rows.first + line % pass.rows.pixels * pass.rows.step;
  const int x = pass.columns.first + pixel % pass.columns.pixels * pass.columns.step;
  return ((image * pass.to_height + y) * pass.to_width + x) * pass.groups * pass.breadth +
         static_cast<std::int64_t>(group) * pass.breadth;
}

template <typename Tile>
__global__ void __launch_bounds__(kTileThreads) gathered_product(ConvPass<typename Tile::Value> pass) {
  using T = typename Tile::Value;
  using Shape = typename Tile::Shape;
  alignas(32) __shared__ T a[Shape::kSizeA];
  alignas(32) __shared__ T b[Shape::kSizeB];
  alignas(32) __shared__ T stage[Tile::kStageSize];
  __shared__ std::int64_t lines[Shape::kRows];
  const int group = static_cast<int>(blockIdx.z);
  const int first_pixel = static_cast<int>(blockIdx.x) * Shape::kRows;
  const int first_column = static_cast<int>(blockIdx.y) * Shape::kColumns;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kRows; i += kTileThreads) {
    lines[i] = written_at(pass, first_pixel + i, group);
  }
  Tile tile;
  PixelTile<T, Shape> pixels(pass, first_pixel, group);
  WeightTile<T, Shape> weights(pass, first_column, group);
  const int length = pass.rows.taps * pass.columns.taps * pass.depth;
  if (length > 0) {
    pixels.fetch(pass);
    weights.fetch(pass);
  }
  for (int k = 0; k < length; k += kTileDepth) {
    pixels.store(a);
    weights.store(b);
    __syncthreads();
    if (k + kTileDepth < length) {
      pixels.fetch(pass);
      weights.fetch(pass);
    }
    tile.template multiply<TileOrder::Rows>(a, b);
    __syncthreads();
  }
  if (length == 0) __syncthreads();  // for `lines`
  tile.for_each(stage, [&](int row, int column, T sum) {
    const int channel = first_column + column;
    if (lines[row] < 0 || channel >= pass.breadth) return;
    T* const to = pass.to + lines[row] + channel;
    if (pass.bias != nullptr) sum += pass.bias[group * pass.breadth + channel];
    if (pass.relu) sum = sum <= T{0} ? T{0} : sum;
    *to = pass.accumulate ? *to + sum : sum;
  });
}

// With fewer blocks than this of the large tile, small tiles keep more processors busy.
constexpr std::int64_t kEnoughBlocks = 128;

template <typename Tile>
Grid grid_of(const ConvPass<typename Tile::Value>& pass) {
  using Shape = typename Tile::Shape;
  const auto cut = [](int extent, int tile) { return static_cast<unsigned>((extent + tile - 1) / tile); };
  return {.blocks = dim3(cut(pass.pixels, Shape::kRows), cut(pass.breadth, Shape::kColumns),
                         static_cast<unsigned>(pass.groups)),
          .threads = kTileThreads};
}

template <typename Large, typename Small>
void launch_pass(const Operation& op, const ConvPass<typename Small::Value>& pass) {
  if constexpr (!std::is_same_v<Large, Small>) {
    const Grid large = grid_of<Large>(pass);
    if (std::int64_t{large.blocks.x} * large.blocks.y * large.blocks.z >= kEnoughBlocks && pass.breadth > 64) {
      return op.launch(large, gathered_product<Large>, pass);
    }
  }
  op.launch(grid_of<Small>(pass), gathered_product<Small>, pass);
}

void run(const Operation& op, const ConvPass<double>& pass) {
  launch_pass<PlainTile<double, 64, 64>, PlainTile<double, 64, 64>>(op, pass);
}

void run(const Operation& op, const ConvPass<float>& pass) {
#if defined(__CUDACC__)
  if (float32_products() != Float32Products::Full) {
    return launch_pass<TensorTile<128, 128>, TensorTile<64, 64>>(op, pass);
  }
#endif
  launch_pass<PlainTile<float, 128, 128>, PlainTile<float, 64, 64>>(op, pass);
}

// One pass for each class of pixels: forward there is one, backward stride x stride of them.
template <typename T>
void run_axes(const Operation& op, ConvPass<T> pass, int batch, const PassAxis& rows, const PassAxis& columns) {
  if (rows.pixels == 0 || columns.pixels == 0) return;
  pass.rows = rows;
  pass.columns = columns;
  pass.pixels = batch * rows.pixels * columns.pixels;
  run(op, pass);
}

}  // namespace

void gathered_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                     bool relu) {
  const Operation op("conv2d", y);
  const Tensor weights = packed_weights(w, extents, true);
  with_float_type(y.dtype(), [&]<typename T>() {
    const ConvPass<T> pass{.from = address<T>(x),
                           .weights = address<T>(weights),
                           .bias = address_or_null<T>(bias),
                           .to = address<T>(y),
                           .to_height = extents.rows.output,
                           .to_width = extents.columns.output,
                           .depth = extents.channels,
                           .breadth = extents.outputs,
                           .padded_breadth = static_cast<int>(weights.shape()[3]),
                           .groups = extents.groups,
                           .kernel_rows = extents.rows.kernel,
                           .kernel_width = extents.columns.kernel,
                           .vector = extents.channels % 4 == 0 && all_aligned(address<T>(x)),
                           .relu = relu,
                           .accumulate = false};
    run_axes(op, pass, extents.batch, extents.rows.forward(), extents.columns.forward());
  });
}

void gathered_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                             bool accumulate) {
  const Operation op("conv2d_input_gradient", dx);
  const Tensor weights = packed_weights(w, extents, false);
  with_float_type(dx.dtype(), [&]<typename T>() {
    const ConvPass<T> pass{.from = address<T>(dy),
                           .weights = address<T>(weights),
                           .bias = nullptr,
                           .to = address<T>(dx),
                           .to_height = extents.rows.input,
                           .to_width = extents.columns.input,
                           .depth = extents.outputs,
                           .breadth = extents.channels,
                           .padded_breadth = static_cast<int>(weights.shape()[3]),
                           .groups = extents.groups,
                           .kernel_rows = extents.rows.kernel,
                           .kernel_width = extents.columns.kernel,
                           .vector = extents.outputs % 4 == 0 && all_aligned(address<T>(dy)),
                           .relu = false,
                           .accumulate = accumulate};
    for (int row = 0; row < extents.rows.stride; ++row) {
      for (int column = 0; column < extents.columns.stride; ++column) {
        run_axes(op, pass, extents.batch, extents.rows.backward(row), extents.columns.backward(column));
      }
    }
  });
}

}  // namespace tutti::tensor::cuda
