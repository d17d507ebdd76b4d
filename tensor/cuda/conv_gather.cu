// conv2d and the gradient of its input as a product whose left side is gathered pixel by pixel while it is multiplied
// (implicit GEMM; Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014). While a tile is multiplied,
// the next one is on its way into registers.
#include <tutti/tensor/cuda/conv_gather.h>
#include <tutti/tensor/cuda/conv_gather_tiles.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/products.h>

namespace tutti::tensor::cuda {
namespace {

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
