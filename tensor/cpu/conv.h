// The extents of one convolution, read off its tensors. Private to tensor/cpu.
#pragma once

#include <tutti/tensor/cpu/conv_taps.h>
#include <tutti/tensor/cpu/conv_weights.h>
#include <tutti/tensor/ops.h>

namespace tutti::tensor::cpu {

struct ConvExtents {
  std::int64_t batch;
  ConvAxis vertical;
  ConvAxis horizontal;
  std::int64_t channels;  // of all groups
  std::int64_t outputs;
  std::int64_t groups;

  /// x (N, H, W, C), w (O, C/G, KH, KW), y (N, H', W', O)
  ConvExtents(const Tensor& x, const Tensor& w, const Tensor& y, const ConvWindow& window)
      : batch(x.shape()[0]),
        vertical{x.shape()[1],         y.shape()[1],          w.shape()[2],
                 window.stride.height, window.padding.height, window.dilation.height},
        horizontal{x.shape()[2],        y.shape()[2],         w.shape()[3],
                   window.stride.width, window.padding.width, window.dilation.width},
        channels(x.shape()[3]),
        outputs(w.shape()[0]),
        groups(window.groups) {}

  /// Of one group.
  WeightExtents weights() const {
    return {.outputs = outputs / groups, .channels = channels / groups, .taps = vertical.kernel * horizontal.kernel};
  }
};

/// One filter a channel: channels == groups == outputs. Contracts as the entries of ops.h without "depthwise".
bool is_depthwise(const ConvExtents& extents);
void depthwise_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                      bool relu);
void depthwise_conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                                     bool accumulate);
void depthwise_conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents,
                                      bool accumulate, bool exact);

}  // namespace tutti::tensor::cpu
