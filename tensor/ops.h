// Kernels over raw tensors: what a device must be able to compute. autograd/ and Tensor call them through a table per
// device, so nothing above this line asks where a tensor lives.
//
// Contract of every entry: outputs are allocated by the caller with the right shape; tensors are contiguous unless said
// otherwise and of one floating type unless said otherwise; shapes were checked by the caller
// (autograd/functions_*.cc). `accumulate` true adds to `out`, false overwrites it (its old contents, NaN included, do
// not matter). Element-wise outputs may be the input itself. Results do not depend on the number of threads. Shapes in
// comments: M, N, K matrix extents; C classes.
#pragma once

#include <tutti/tensor/pair.h>
#include <tutti/tensor/tensor.h>

namespace tutti::tensor {

struct ConvWindow {
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
};

struct KernelTable {
  // Any type, any strides.
  void (*fill)(Tensor& out, double value);
  void (*copy)(Tensor& out, const Tensor& in);  // same shape; converts when the types differ

  // Element-wise, all of one shape.
  void (*add)(Tensor& out, const Tensor& a, const Tensor& b);
  void (*mul)(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate);
  void (*scale)(Tensor& out, const Tensor& a, double factor, bool accumulate);
  void (*relu)(Tensor& out, const Tensor& a);
  void (*relu_backward)(Tensor& out, const Tensor& grad, const Tensor& y, bool accumulate);  // y = relu(...)
  /// out (any shape) (+)= factor * the one element of `scalar`.
  void (*broadcast)(Tensor& out, const Tensor& scalar, double factor, bool accumulate);

  // Reductions.
  void (*sum)(Tensor& out, const Tensor& a, double factor);           // out () = factor * sum(a)
  void (*column_sum)(Tensor& out, const Tensor& a, bool accumulate);  // a (M, N) -> out (N)

  /// c (M, N) (+)= op(a) op(b), where op transposes when the flag says so.
  void (*gemm)(Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, bool accumulate);
  /// y (M, N) = relu?(y + bias (N)); bias may be undefined.
  void (*bias_activation)(Tensor& y, const Tensor& bias, bool relu);

  // Convolution, images (N, H, W, C): x with C = G times the second extent of w (O, C/G, KH, KW), y with O channels.
  /// y = relu?(conv(x, w) + bias (O)); bias may be undefined.
  void (*conv2d)(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& window, bool relu);
  void (*conv2d_input_gradient)(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvWindow& window,
                                bool accumulate);
  void (*conv2d_weight_gradient)(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window,
                                 bool accumulate);

  // Over the last axis of (M, C).
  void (*log_softmax)(Tensor& y, const Tensor& x);
  void (*log_softmax_backward)(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate);

  // Losses. grad () is the gradient of the loss.
  /// loss () = factor * sum over rows of -log softmax(logits)[target]; fills probabilities (M, C). targets int64 (M).
  /// Throws std::invalid_argument naming the row of a target outside [0, C).
  void (*cross_entropy)(Tensor& loss, Tensor& probabilities, const Tensor& logits, const Tensor& targets,
                        double factor);
  void (*cross_entropy_backward)(Tensor& dlogits, const Tensor& probabilities, const Tensor& targets,
                                 const Tensor& grad, double factor, bool accumulate);
  /// loss () = factor * sum (a - b)^2
  void (*squared_error)(Tensor& loss, const Tensor& a, const Tensor& b, double factor);
  /// da (+)= grad * factor * 2 (a - b)
  void (*squared_error_backward)(Tensor& da, const Tensor& a, const Tensor& b, const Tensor& grad, double factor,
                                 bool accumulate);
};

/// The kernels of a device. Throws as Tensor::empty does for a device that cannot compute.
const KernelTable& kernels(Device device);

}  // namespace tutti::tensor
