// Convolution with one filter a channel: no sums over channels, so no matrix product; every pass runs along C.
#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

// One pass of filters over images: forward, or backward to the input; only the taps differ.
template <typename T>
struct DepthwisePass {
  const T* from;
  T* to;
  std::int64_t from_height, from_width;
  std::int64_t to_height, to_width;
  std::int64_t channels;
  std::int64_t kernel_width;
  const T* filters;  // (tap, channel)
  const T* bias;
  bool relu;
  bool accumulate;

  // to[...] = sum over taps of from[first + distance] * filter; the channels of one pixel.
  void pixel(T* out, const T* first, const TapClass& rows, const TapClass& columns) const {
    T* const line = out;
    if (!accumulate) {
      for (std::int64_t c = 0; c < channels; ++c) line[c] = bias != nullptr ? bias[c] : T{0};
    }
    for (const Tap& row : rows.taps) {
      for (const Tap& column : columns.taps) {
        const T* const in = first + (row.distance * from_width + column.distance) * channels;
        const T* const filter = filters + (row.kernel * kernel_width + column.kernel) * channels;
#pragma GCC ivdep
        for (std::int64_t c = 0; c < channels; ++c) line[c] += in[c] * filter[c];
      }
    }
    if (!relu) return;
    for (std::int64_t c = 0; c < channels; ++c) line[c] = line[c] <= T{0} ? T{0} : line[c];
  }

  void image(std::int64_t n, const std::vector<TapClass>& rows, const std::vector<TapClass>& columns) const {
    for (const TapClass& row : rows) {
      for (const TapPlace& y : row.places) {
        for (const TapClass& column : columns) {
          for (const TapPlace& x : column.places) {
            pixel(to + ((n * to_height + y.to) * to_width + x.to) * channels,
                  from + ((n * from_height + y.from) * from_width + x.from) * channels, row, column);
          }
        }
      }
    }
  }
};

// (C, 1, taps) -> (taps, C)
template <typename T>
Tensor filters_by_tap(const Tensor& w) {
  return w.reshape({w.shape()[0], w.shape()[2] * w.shape()[3]}).transpose(0, 1).contiguous();
}

template <typename T>
void run(const DepthwisePass<T>& pass, std::int64_t batch, const std::vector<TapClass>& rows,
         const std::vector<TapClass>& columns) {
  parallel_for(batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) pass.image(n, rows, columns);
  });
}

}  // namespace

bool is_depthwise(const ConvExtents& extents) {
  return extents.groups > 1 && extents.groups == extents.channels && extents.groups == extents.outputs;
}

void depthwise_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                      bool relu) {
  with_float_type(y.dtype(), [&]<typename T>() {
    const Tensor filters = filters_by_tap<T>(w);
    run<T>({.from = x.data<T>(),
            .to = y.data<T>(),
            .from_height = extents.vertical.input,
            .from_width = extents.horizontal.input,
            .to_height = extents.vertical.output,
            .to_width = extents.horizontal.output,
            .channels = extents.channels,
            .kernel_width = extents.horizontal.kernel,
            .filters = filters.data<T>(),
            .bias = bias.defined() ? bias.data<T>() : nullptr,
            .relu = relu,
            .accumulate = false},
           extents.batch, forward_classes(extents.vertical), forward_classes(extents.horizontal));
  });
}

void depthwise_conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                                     bool accumulate) {
  with_float_type(dx.dtype(), [&]<typename T>() {
    const Tensor filters = filters_by_tap<T>(w);
    run<T>({.from = dy.data<T>(),
            .to = dx.data<T>(),
            .from_height = extents.vertical.output,
            .from_width = extents.horizontal.output,
            .to_height = extents.vertical.input,
            .to_width = extents.horizontal.input,
            .channels = extents.channels,
            .kernel_width = extents.horizontal.kernel,
            .filters = filters.data<T>(),
            .bias = nullptr,
            .relu = false,
            .accumulate = accumulate},
           extents.batch, backward_classes(extents.vertical), backward_classes(extents.horizontal));
  });
}

// Channels are cut between threads; each adds up the pixels in their order.
void depthwise_conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents,
                                      bool accumulate, bool exact) {
  with_float_type(dw.dtype(), [&]<typename T>() {
    const std::vector<TapClass> rows = forward_classes(extents.vertical);
    const std::vector<TapClass> columns = forward_classes(extents.horizontal);
    const std::int64_t taps = extents.vertical.kernel * extents.horizontal.kernel;
    const std::int64_t channels = extents.channels;
    Tensor sums = Tensor::zeros({taps, channels}, dw.dtype());
    const auto add_pixel = [&](const T* gradient, const T* first, const TapClass& row, const TapClass& column,
                               std::int64_t begin, std::int64_t end) {
      for (const Tap& down : row.taps) {
        for (const Tap& along : column.taps) {
          const T* const in = first + (down.distance * extents.horizontal.input + along.distance) * channels;
          T* const sum = sums.data<T>() + (down.kernel * extents.horizontal.kernel + along.kernel) * channels;
          if (exact) {
            for (std::int64_t c = begin; c < end; ++c) sum[c] += static_cast<T>(rounded(in[c] * gradient[c]));
            continue;
          }
#pragma GCC ivdep
          for (std::int64_t c = begin; c < end; ++c) sum[c] += in[c] * gradient[c];
        }
      }
    };
    constexpr std::int64_t kGrain = 64;
    parallel_for(channels, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = 0; n < extents.batch; ++n) {
        for (const TapClass& row : rows) {
          for (const TapPlace& v : row.places) {
            for (const TapClass& column : columns) {
              for (const TapPlace& h : column.places) {
                const std::int64_t to = (n * extents.vertical.output + v.to) * extents.horizontal.output + h.to;
                const std::int64_t from = (n * extents.vertical.input + v.from) * extents.horizontal.input + h.from;
                add_pixel(dy.data<T>() + to * channels, x.data<T>() + from * channels, row, column, begin, end);
              }
            }
          }
        }
      }
    });
    const Tensor turned = sums.transpose(0, 1).reshape(dw.shape());
    if (accumulate) {
      add(dw, dw, turned);
    } else {
      copy(dw, turned);
    }
  });
}

}  // namespace tutti::tensor::cpu
