// Convolution with one filter a channel: no matrix product, every pass is bound by memory and runs along the channels.
#include <tutti/tensor/cuda/conv_gather.h>
#include <tutti/tensor/cuda/indices.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/cuda/product_tiles.h>

#include <algorithm>

namespace tutti::tensor::cuda {
namespace {

// out (tap, channel) = w (channel, tap)
template <typename T>
__global__ void filters_by_tap(T* out, const T* w, int channels, int taps) {
  const int i = static_cast<int>(first_index());
  if (i < channels * taps) out[i] = w[i % channels * taps + i / channels];
}

// A thread computes kLanes neighbouring channels of a pixel. pass.weights is (tap, channel).
template <int kLanes, typename T>
__global__ void depthwise_pass(ConvPass<T> pass) {
  const int strips = pass.groups / kLanes;
  const std::int64_t i = first_index();
  if (i >= static_cast<std::int64_t>(pass.pixels) * strips) return;
  int strip = 0;
  const int pixel = static_cast<int>(split(i, strips, strip));
  const int channel = strip * kLanes;
  const int line = pixel / pass.columns.pixels;
  const int down = line % pass.rows.pixels;
  const int along = pixel % pass.columns.pixels;
  const std::int64_t image = line / pass.rows.pixels;
  T sums[kLanes] = {};
  for (int row = 0; row < pass.rows.taps; ++row) {
    const int y = pass.rows.base + down * pass.rows.pixel_step + row * pass.rows.tap_step;
    if (y < 0 || y >= pass.rows.from) continue;
    for (int column = 0; column < pass.columns.taps; ++column) {
      const int x = pass.columns.base + along * pass.columns.pixel_step + column * pass.columns.tap_step;
      if (x < 0 || x >= pass.columns.from) continue;
      const T* from = pass.from + ((image * pass.rows.from + y) * pass.columns.from + x) * pass.groups + channel;
      const int tap = (pass.rows.kernel_first + row * pass.rows.kernel_step) * pass.kernel_width +
                      pass.columns.kernel_first + column * pass.columns.kernel_step;
      const T* filter = pass.weights + static_cast<std::int64_t>(tap) * pass.groups + channel;
      if constexpr (kLanes == 4) {
        const auto a = *reinterpret_cast<const Quad<T>*>(from);
        const auto b = *reinterpret_cast<const Quad<T>*>(filter);
        TUTTI_UNROLL for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a.v[lane] * b.v[lane];
      } else {
        sums[0] += *from * *filter;
      }
    }
  }
  const int y = pass.rows.first + down * pass.rows.step;
  const int x = pass.columns.first + along * pass.columns.step;
  T* to = pass.to + ((image * pass.to_height + y) * pass.to_width + x) * pass.groups + channel;
  TUTTI_UNROLL for (int lane = 0; lane < kLanes; ++lane) {
    T sum = sums[lane];
    if (pass.bias != nullptr) sum += pass.bias[channel + lane];
    if (pass.relu) sum = sum <= T{0} ? T{0} : sum;
    to[lane] = pass.accumulate ? to[lane] + sum : sum;
  }
}

// A block sums 32 channels at one tap over one part of the pixels: 32 lanes along the channels, 8 down the pixels.
// sums is (parts, channel, tap).
template <typename T>
__global__ void depthwise_weight_parts(ConvWeightPass<T> pass) {
  constexpr int kLanes = 32;
  constexpr int kDown = static_cast<int>(kThreads) / kLanes;
  __shared__ T shared[kDown][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first = static_cast<int>(threadIdx.x) / kLanes;
  const int channel = static_cast<int>(blockIdx.x) * kLanes + lane;
  const int tap = static_cast<int>(blockIdx.y);
  const int part = static_cast<int>(blockIdx.z);
  const int row = tap / pass.columns.taps * pass.rows.tap_step + pass.rows.base;
  const int column = tap % pass.columns.taps * pass.columns.tap_step + pass.columns.base;
  const int begin = part * pass.part;
  const int end = pass.pixels - begin < pass.part ? pass.pixels : begin + pass.part;
  T sum{0};
  if (channel < pass.groups) {
    for (int pixel = begin + first; pixel < end; pixel += kDown) {
      const int line = pixel / pass.columns.pixels;
      const int y = row + line % pass.rows.pixels * pass.rows.pixel_step;
      const int x = column + pixel % pass.columns.pixels * pass.columns.pixel_step;
      if (y < 0 || y >= pass.rows.from || x < 0 || x >= pass.columns.from) continue;
      const std::int64_t image = line / pass.rows.pixels;
      const std::int64_t from = (image * pass.rows.from + y) * pass.columns.from + x;
      sum += pass.x[from * pass.groups + channel] * pass.dy[static_cast<std::int64_t>(pixel) * pass.groups + channel];
    }
  }
  shared[first][lane] = sum;
  __syncthreads();
  if (first > 0 || channel >= pass.groups) return;
  T total = shared[0][lane];
  for (int i = 1; i < kDown; ++i) total += shared[i][lane];
  pass.sums[(static_cast<std::int64_t>(part) * pass.groups + channel) * pass.taps + tap] = total;
}

template <typename T>
Tensor packed_filters(const Operation& op, const Tensor& w, const ConvExtents& extents) {
  Tensor filters = Tensor::empty({extents.taps(), extents.groups}, w.dtype(), w.device());
  op.launch(thread_each(filters.numel()), filters_by_tap<T>, address<T>(filters), address<T>(w), extents.groups,
            extents.taps());
  return filters;
}

template <typename T>
void run_axes(const Operation& op, ConvPass<T> pass, int batch, const PassAxis& rows, const PassAxis& columns) {
  pass.rows = rows;
  pass.columns = columns;
  pass.pixels = batch * rows.pixels * columns.pixels;
  const std::int64_t all = static_cast<std::int64_t>(pass.pixels) * pass.groups;
  if (pass.vector) {
    op.launch(thread_each(all / 4), depthwise_pass<4, T>, pass);
  } else {
    op.launch(thread_each(all), depthwise_pass<1, T>, pass);
  }
}

}  // namespace

void depthwise_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                      bool relu) {
  const Operation op("conv2d", y);
  with_float_type(y.dtype(), [&]<typename T>() {
    const Tensor filters = packed_filters<T>(op, w, extents);
    const ConvPass<T> pass{.from = address<T>(x),
                           .weights = address<T>(filters),
                           .bias = address_or_null<T>(bias),
                           .to = address<T>(y),
                           .to_height = extents.rows.output,
                           .to_width = extents.columns.output,
                           .groups = extents.groups,
                           .kernel_width = extents.columns.kernel,
                           .vector = extents.groups % 4 == 0 && all_aligned(address<T>(x)),
                           .relu = relu};
    run_axes(op, pass, extents.batch, extents.rows.forward(), extents.columns.forward());
  });
}

void depthwise_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                              bool accumulate) {
  const Operation op("conv2d_input_gradient", dx);
  with_float_type(dx.dtype(), [&]<typename T>() {
    const Tensor filters = packed_filters<T>(op, w, extents);
    const ConvPass<T> pass{.from = address<T>(dy),
                           .weights = address<T>(filters),
                           .to = address<T>(dx),
                           .to_height = extents.rows.input,
                           .to_width = extents.columns.input,
                           .groups = extents.groups,
                           .kernel_width = extents.columns.kernel,
                           .vector = extents.groups % 4 == 0 && all_aligned(address<T>(dy)),
                           .accumulate = accumulate};
    for (int row = 0; row < extents.rows.stride; ++row) {
      for (int column = 0; column < extents.columns.stride; ++column) {
        run_axes(op, pass, extents.batch, extents.rows.backward(row), extents.columns.backward(column));
      }
    }
  });
}

void depthwise_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents,
                               bool accumulate) {
  // As in conv_weight_gradient.cu: parts that depend on the shape only.
  constexpr int kWantedBlocks = 1024;
  constexpr int kShortestPart = 256;
  const Operation op("conv2d_weight_gradient", dw);
  const int pixels = extents.batch * extents.rows.output * extents.columns.output;
  const int strips = (extents.groups + 31) / 32;
  const int wanted = std::max(1, kWantedBlocks / (strips * extents.taps()));
  const int part = std::max((pixels + wanted - 1) / wanted, kShortestPart);
  const int parts = (pixels + part - 1) / part;
  Tensor sums = Tensor::empty({parts, dw.numel()}, dw.dtype(), dw.device());
  with_float_type(dw.dtype(), [&]<typename T>() {
    const ConvWeightPass<T> pass{.x = address<T>(x),
                                 .dy = address<T>(dy),
                                 .sums = address<T>(sums),
                                 .rows = extents.rows.forward(),
                                 .columns = extents.columns.forward(),
                                 .pixels = pixels,
                                 .part = part,
                                 .channels = 1,
                                 .outputs = 1,
                                 .groups = extents.groups,
                                 .taps = extents.taps()};
    op.launch({.blocks = dim3(static_cast<unsigned>(strips), static_cast<unsigned>(extents.taps()),
                              static_cast<unsigned>(parts))},
              depthwise_weight_parts<T>, pass);
  });
  add_weight_parts(dw, sums, extents, accumulate);
}

}  // namespace tutti::tensor::cuda
