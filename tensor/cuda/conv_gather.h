// The convolution as a matrix product that gathers its left side: no patches are laid out in memory. Used forward and
// for the gradient of the input, which is the same product in another arrangement (conv_pass.h). Private to
// tensor/cuda.
#pragma once

#include <tutti/tensor/cuda/conv_pass.h>

namespace tutti::tensor::cuda {

/// (groups, taps, depth, padded breadth), zeros in the padding: the right side of the product. Forward: depth =
/// channels, breadth = outputs; for the gradient of the input the other way round.
Tensor packed_weights(const Tensor& w, const ConvExtents& extents, bool forward);

/// y = relu?(conv(x, w) + bias), as ops.h says, by our own kernels.
void gathered_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                     bool relu);
void gathered_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                             bool accumulate);
/// Sums over the pixels are cut into parts that depend on the shape only and added in a fixed order: the same bits at
/// every run, on every card.
void gathered_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents,
                              bool accumulate);

/// One filter a channel.
void depthwise_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                      bool relu);
void depthwise_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                              bool accumulate);
void depthwise_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents,
                               bool accumulate);

/// dw (+)= the parts (parts, groups, taps, channels, outputs) added up; parts is sums.shape()[0].
void add_weight_parts(Tensor& dw, const Tensor& sums, const ConvExtents& extents, bool accumulate);

}  // namespace tutti::tensor::cuda
