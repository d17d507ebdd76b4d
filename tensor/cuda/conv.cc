// Which kernels compute a convolution on a GPU: depthwise ones our own, which run along the channels; the others
// cuDNN's where it can, else our own gathered products.
#include <tutti/tensor/cuda/conv_gather.h>
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/cudnn.h>

namespace tutti::tensor::cuda {

void conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& window, bool relu) {
  if (y.numel() == 0) return;
  const ConvExtents extents(x, w, y, window);
  if (extents.depthwise()) return depthwise_conv2d(y, x, w, bias, extents, relu);
  if (cudnn_conv2d(y, x, w, bias, extents, relu)) return;
  gathered_conv2d(y, x, w, bias, extents, relu);
}

void conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvWindow& window, bool accumulate) {
  if (dx.numel() == 0) return;
  const ConvExtents extents(dx, w, dy, window);
  if (extents.depthwise()) return depthwise_input_gradient(dx, dy, w, extents, accumulate);
  if (cudnn_input_gradient(dx, dy, w, extents, accumulate)) return;
  gathered_input_gradient(dx, dy, w, extents, accumulate);
}

void conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window, bool accumulate) {
  if (dy.numel() == 0) {  // no pixels: the sums are empty
    if (!accumulate) dw.fill(0);
    return;
  }
  const ConvExtents extents(x, dw, dy, window);
  if (extents.depthwise()) return depthwise_weight_gradient(dw, dy, x, extents, accumulate);
  if (cudnn_weight_gradient(dw, dy, x, extents, accumulate)) return;
  gathered_weight_gradient(dw, dy, x, extents, accumulate);
}

}  // namespace tutti::tensor::cuda
