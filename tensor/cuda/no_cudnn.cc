// The twin of cudnn.cc for a build that did not find cuDNN, and for the emulated device.
#include <tutti/tensor/cuda/cudnn.h>

namespace tutti::tensor::cuda {

bool cudnn_conv2d(Tensor&, const Tensor&, const Tensor&, const Tensor&, const ConvExtents&, bool) { return false; }

bool cudnn_input_gradient(Tensor&, const Tensor&, const Tensor&, const ConvExtents&, bool) { return false; }

bool cudnn_weight_gradient(Tensor&, const Tensor&, const Tensor&, const ConvExtents&, bool) { return false; }

std::string convolution_status() { return "our own kernels (built without cuDNN)"; }

}  // namespace tutti::tensor::cuda
