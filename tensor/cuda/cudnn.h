// Convolutions by cuDNN, for float32 and what is not depthwise. Where it is not wanted, not there or does not offer a
// case, our own kernels compute (conv.cc).
//
// Of the algorithms that cuDNN offers for a shape, the fastest by its own estimate whose results are the same at every
// run is taken: without exception, so that a training can be repeated. Its weights lie as (O, KH, KW, C / G); ours are
// turned around on the way.
//
// Thread-safety: each function may be called from any thread; cuDNN is entered by one at a time for each device.
#pragma once

#include <tutti/tensor/cuda/conv_pass.h>

#include <string>

namespace tutti::tensor::cuda {

/// As the entries of ops.h. False: nothing has been done.
bool cudnn_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                  bool relu);
bool cudnn_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents, bool accumulate);
bool cudnn_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents, bool accumulate);

/// "cuDNN 9.19.0", or "our own kernels" and why.
std::string convolution_status();

}  // namespace tutti::tensor::cuda
