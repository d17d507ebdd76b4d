// Which pixels a convolution's passes read: plain arithmetic, shared by the kernels and their launchers. Private to
// tensor/cuda.
//
// Forward, pixel i of y and tap j of the kernel read row base + i pixel_step + j tap_step of x. The gradient of the
// input reads dy in the same form once the pixels of dx are sorted by their remainder modulo the stride: of the taps,
// only those of one remainder ever fall on a pixel of dy, so that no product with an inserted zero is computed
// (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4, has the picture).
#pragma once

#include <tutti/tensor/ops.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::tensor::cuda {

/// One axis of one pass. An empty one (pixels == 0) has nothing to write; one without taps writes zeros.
struct PassAxis {
  int from = 0;    // extent of the image that is read
  int pixels = 0;  // how many are written
  int first = 0;   // pixel i lies at first + i step of the image that is written
  int step = 1;
  int base = 0;  // pixel i and tap j read base + i pixel_step + j tap_step, where that lies inside
  int pixel_step = 1;
  int tap_step = 1;
  int taps = 0;
  int kernel_first = 0;  // tap j is row kernel_first + j kernel_step of the kernel
  int kernel_step = 1;
};

/// One axis of a convolution.
struct ConvAxis {
  int input;
  int output;
  int kernel;
  int stride;
  int padding;
  int dilation;

  PassAxis forward() const {
    return {
        .from = input, .pixels = output, .base = -padding, .pixel_step = stride, .tap_step = dilation, .taps = kernel};
  }

  /// The pixels of dx whose position is `remainder` modulo the stride; 0 <= remainder < stride.
  PassAxis backward(int remainder) const {
    PassAxis pass{.from = output, .first = remainder, .step = stride};
    if (remainder >= input) return pass;
    pass.pixels = (input - remainder + stride - 1) / stride;
    pass.kernel_step = stride / std::gcd(stride, dilation);
    pass.tap_step = -(pass.kernel_step * dilation / stride);
    int tap = 0;
    while (tap < kernel && tap < pass.kernel_step && (remainder + padding - tap * dilation) % stride != 0) ++tap;
    if (tap == kernel || tap == pass.kernel_step) return pass;
    pass.kernel_first = tap;
    pass.taps = (kernel - 1 - tap) / pass.kernel_step + 1;
    pass.base = (remainder + padding - tap * dilation) / stride;
    return pass;
  }
};

/// Throws std::invalid_argument: the kernels count pixels and channels in 32 bits, rounded up to whole tiles.
inline int narrow_extent(std::int64_t extent, const char* what) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() - 1024;
  if (extent <= kMost) return static_cast<int>(extent);
  throw std::invalid_argument("conv2d on a GPU: " + std::string(what) + " is " + std::to_string(extent) +
                              ", more than " + std::to_string(kMost) + "; use a smaller batch");
}

/// The extents of one convolution, read off its tensors: x (N, H, W, C), w (O, C/G, KH, KW), y (N, H', W', O).
struct ConvExtents {
  int batch;
  ConvAxis rows;
  ConvAxis columns;
  int channels;  // of one group, as are outputs
  int outputs;
  int groups;

  ConvExtents(const Tensor& x, const Tensor& w, const Tensor& y, const ConvWindow& window)
      : batch(narrow_extent(x.shape()[0], "the batch")),
        rows(axis(x, w, y, 1, window.stride.height, window.padding.height, window.dilation.height)),
        columns(axis(x, w, y, 2, window.stride.width, window.padding.width, window.dilation.width)),
        channels(narrow_extent(w.shape()[1], "the number of channels")),
        outputs(narrow_extent(w.shape()[0] / window.groups, "the number of outputs")),
        groups(narrow_extent(window.groups, "the number of groups")) {
    narrow_extent(x.shape()[0] * x.shape()[1] * x.shape()[2], "the number of pixels");
    narrow_extent(y.shape()[0] * y.shape()[1] * y.shape()[2], "the number of pixels");
    narrow_extent(w.numel(), "the number of weights");
  }

  int taps() const { return rows.kernel * columns.kernel; }
  /// One filter a channel: no sums over channels, so no matrix product.
  bool depthwise() const { return groups > 1 && channels == 1 && outputs == 1; }

 private:
  static ConvAxis axis(const Tensor& x, const Tensor& w, const Tensor& y, int image_axis, std::int64_t stride,
                       std::int64_t padding, std::int64_t dilation) {
    return {narrow_extent(x.shape()[image_axis], "an image's extent"),
            narrow_extent(y.shape()[image_axis], "an image's extent"),
            narrow_extent(w.shape()[image_axis + 1], "a kernel's extent"),
            narrow_extent(stride, "the stride"),
            narrow_extent(padding, "the padding"),
            narrow_extent(dilation, "the dilation")};
  }
};

/// What the matrix-product kernels take: rows are pixels, sums run over (tap, channel of `from`), columns are the
/// channels of `to`; a group at a time.
template <typename T>
struct ConvPass {
  const T* from = nullptr;     // (N, rows.from, columns.from, groups * depth)
  const T* weights = nullptr;  // (groups, kernel rows * kernel_width, depth, padded breadth)
  const T* bias = nullptr;     // (groups * breadth) or null
  T* to = nullptr;             // (N, to_height, to_width, groups * breadth)
  PassAxis rows{};
  PassAxis columns{};
  int pixels = 0;  // batch * rows.pixels * columns.pixels
  int to_height = 0;
  int to_width = 0;
  int depth = 0;
  int breadth = 0;
  int padded_breadth = 0;  // a multiple of 4
  int groups = 0;
  int kernel_rows = 0;
  int kernel_width = 0;
  bool vector = false;  // four neighbouring channels of `from` are one load
  bool relu = false;
  bool accumulate = false;
};

/// The weight gradient: rows are (tap, channel), columns outputs, sums run over the pixels of one part.
template <typename T>
struct ConvWeightPass {
  const T* x = nullptr;
  const T* dy = nullptr;
  T* sums = nullptr;  // (parts, groups, taps * channels, outputs)
  PassAxis rows{};
  PassAxis columns{};
  int pixels = 0;  // of dy
  int part = 0;    // pixels of a part, a multiple of the tile's depth
  int channels = 0;
  int outputs = 0;
  int groups = 0;
  int taps = 0;
  bool vector_x = false;
  bool vector_dy = false;
};

}  // namespace tutti::tensor::cuda
