// Kernels over raw tensors: what a device must be able to compute. autograd/ and Tensor call them through a table per
// device, so nothing above this line asks where a tensor lives.
//
// Contract of every entry: outputs are allocated by the caller with the right shape; tensors are contiguous unless said
// otherwise and of one floating type unless said otherwise; shapes were checked by the caller
// (autograd/functions_*.cc). `accumulate` true adds to `out`, false overwrites it (its old contents, NaN included, do
// not matter). Element-wise outputs may be the input itself. Results do not depend on the number of threads. Shapes in
// comments: M, N, K matrix extents; C classes.
//
// Exact sums: on the CPU column_sum, gemm with only `a` transposed, and conv2d_weight_gradient take a float64 result
// for float32 operands. It is the sum over rows or images with the same bits for any order and partition of them, as
// long as it stays below 16 in size (cpu/exact_sum.h). So do batch_norm_moments and, for float64 sums, batch_norm_sums,
// for any order and partition of images.
#pragma once

#include <tutti/tensor/pair.h>
#include <tutti/tensor/tensor.h>
#include <tutti/tensor/updates.h>

#include <span>

namespace tutti::tensor {

struct ConvWindow {
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
};

/// One output row or column of a pooling: the input positions [begin, end), cut to the image. Begins and ends never
/// decrease from one window to the next. `divisor` is what the window counts for in a mean.
struct PoolWindow {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t divisor = 1;
};

enum class Curve { Relu6, Silu, Sigmoid, Tanh };

/// What the passes of a batch norm share. x (M, C), the rest (C): y = relu?((x - mean) factor + bias + residual).
struct BatchNormPass {
  Tensor x;
  Tensor mean;
  Tensor factor;  // weight / sqrt(variance + epsilon)
  Tensor bias;
  Tensor inverse_deviation;     // 1 / sqrt(variance + epsilon)
  std::int64_t image_rows = 0;  // of x for each image; for exact sums
  bool relu = false;
};

/// What training leaves for evaluation, both (C): running = (1 - momentum) running + momentum now.
struct RunningStatistics {
  Tensor mean;  // undefined: nothing is left
  Tensor variance;
  double momentum = 0;
  double unbiased = 1;  // what makes the biased variance of now the unbiased one
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
  /// y (M, N) = relu?(x (M, K) w (N, K)^T + bias (N)); bias may be undefined.
  void (*linear)(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, bool relu);

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

  // Losses. grad () is the gradient of the loss; on the CPU both may be float64 for float32 operands.
  /// loss () = factor * sum over rows of -log softmax(logits)[target]; fills probabilities (M, C). targets int64 (M).
  /// Throws std::invalid_argument naming the row of a target outside [0, C).
  /// `smoothing` of each target is shared by all classes.
  void (*cross_entropy)(Tensor& loss, Tensor& probabilities, const Tensor& logits, const Tensor& targets, double factor,
                        double smoothing);
  void (*cross_entropy_backward)(Tensor& dlogits, const Tensor& probabilities, const Tensor& targets,
                                 const Tensor& grad, double factor, double smoothing, bool accumulate);
  /// loss () = factor * sum (a - b)^2
  void (*squared_error)(Tensor& loss, const Tensor& a, const Tensor& b, double factor);
  /// da (+)= grad * factor * 2 (a - b)
  void (*squared_error_backward)(Tensor& da, const Tensor& a, const Tensor& b, const Tensor& grad, double factor,
                                 bool accumulate);

  // Element-wise and reductions, continued.
  void (*sub)(Tensor& out, const Tensor& a, const Tensor& b);
  void (*div)(Tensor& out, const Tensor& a, const Tensor& b);
  void (*sum_middle)(Tensor& out, const Tensor& a, double factor);  // out (A, C) = factor * sum of a (A, B, C) over B
  /// out (A, B, C) (+)= factor * a (A, C)
  void (*spread_middle)(Tensor& out, const Tensor& a, double factor, bool accumulate);
  void (*scale_rows)(Tensor& out, const Tensor& a, const Tensor& factors, bool accumulate);  // a (M, N), factors (M)
  /// out (A, B, C) (+)= a (A, B, C) * s (A, C)
  void (*mul_channels)(Tensor& out, const Tensor& a, const Tensor& s, bool accumulate);
  /// out (A, C) (+)= sum over B of a b, both (A, B, C)
  void (*channel_dots)(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate);

  // Softmax over the last axis of (M, C), and the likelihood of targets int64 (M) under log probabilities (M, C).
  void (*softmax)(Tensor& y, const Tensor& x);
  void (*softmax_backward)(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate);
  /// loss () = factor * sum over rows of -log_probabilities[target]. Throws as cross_entropy does.
  void (*nll_loss)(Tensor& loss, const Tensor& log_probabilities, const Tensor& targets, double factor);
  void (*nll_loss_backward)(Tensor& dx, const Tensor& targets, const Tensor& grad, double factor, bool accumulate);

  // Activations other than relu, element-wise. `saved` is y for relu6, sigmoid and tanh, and x for silu.
  void (*curve)(Tensor& y, const Tensor& x, Curve curve);
  void (*curve_backward)(Tensor& dx, const Tensor& grad, const Tensor& saved, Curve curve, bool accumulate);

  // Batch norm. residual of x's shape or undefined.
  /// The pass's inverse_deviation and factor, which are defined, from the biased variance; and the running statistics.
  void (*batch_norm_channels)(BatchNormPass& pass, const Tensor& variance, const Tensor& weight, double epsilon,
                              RunningStatistics& running);
  /// variance is the biased one.
  void (*batch_norm_statistics)(Tensor& mean, Tensor& variance, const Tensor& x);
  void (*batch_norm)(Tensor& y, const BatchNormPass& pass, const Tensor& residual);
  /// With dz = grad where relu let it pass: sum_dz (C) = sum of dz, sum_dzx (C) = sum of dz (x - mean). Where relu let
  /// it pass is read from y; for an undefined y, which is possible without a residual, it is computed again. A defined
  /// dz is written too; it may be grad itself. Exact sums (float64): sum_dzx is sum of dz (x - mean) inverse_deviation.
  void (*batch_norm_sums)(Tensor& sum_dz, Tensor& sum_dzx, Tensor& dz, const BatchNormPass& pass, const Tensor& grad,
                          const Tensor& y);
  /// From the sums (C) over 1 / share rows: offset = -share factor sum_dz and slope = -share factor s^2 sum_dzx, where
  /// s is inverse_deviation; exact sums have been multiplied by it once.
  void (*batch_norm_coefficients)(Tensor& offset, Tensor& slope, const BatchNormPass& pass, const Tensor& sum_dz,
                                  const Tensor& sum_dzx, double share, bool exact);
  /// dx (+)= dz factor + (x - mean) slope + offset, with dz from grad as above.
  void (*batch_norm_input)(Tensor& dx, const BatchNormPass& pass, const Tensor& grad, const Tensor& y,
                           const Tensor& slope, const Tensor& offset, bool accumulate);

  // Pooling over (N, H, W, C). A window is one of `rows` by one of `columns`.
  /// choice (of y's shape, uint8 or int64) is where the maximum was, numbered along the window's rows; its type must
  /// hold the largest window's numbers.
  void (*max_pool)(Tensor& y, Tensor& choice, const Tensor& x, std::span<const PoolWindow> rows,
                   std::span<const PoolWindow> columns);
  void (*max_pool_backward)(Tensor& dx, const Tensor& grad, const Tensor& choice, std::span<const PoolWindow> rows,
                            std::span<const PoolWindow> columns, bool accumulate);
  /// y = sum of the window / (product of its two divisors)
  void (*mean_pool)(Tensor& y, const Tensor& x, std::span<const PoolWindow> rows, std::span<const PoolWindow> columns);
  void (*mean_pool_backward)(Tensor& dx, const Tensor& grad, std::span<const PoolWindow> rows,
                             std::span<const PoolWindow> columns, bool accumulate);

  // Dropout.
  /// mask uint8 (N, rest): 1 with probability 1 - p. Row i comes from KeyedStream(keys[i], layer); keys int64 (N).
  void (*dropout_mask)(Tensor& mask, const Tensor& keys, std::uint64_t layer, double p);
  /// out (+)= a * mask * factor; mask uint8 with as many elements.
  void (*apply_mask)(Tensor& out, const Tensor& a, const Tensor& mask, double factor, bool accumulate);

  // Optimizer steps over all parameters of a device; the rules stand in nn/optim/.
  void (*sgd_update)(Device device, std::span<const UpdatedParameter> parameters, const SgdRule& rule);
  void (*adam_update)(Device device, std::span<const UpdatedParameter> parameters, const AdamRule& rule);
  void (*adadelta_update)(Device device, std::span<const UpdatedParameter> parameters, const AdadeltaRule& rule);
  /// Of the gradients, in double and in a fixed order. Waits for the device.
  double (*sum_of_squares)(Device device, std::span<const UpdatedParameter> parameters);
  void (*scale_gradients)(Device device, std::span<const UpdatedParameter> parameters, float factor);

  /// Batch norm by exact sums, on the CPU only (else null): sums float64 (4, C), of the deviations of x from `centre`
  /// (C) and of their squares: the high parts of both, then the low parts.
  void (*batch_norm_moments)(Tensor& sums, const Tensor& x, const Tensor& centre, std::int64_t image_rows) = nullptr;
};

/// The kernels of a device. Throws as Tensor::empty does for a device that cannot compute.
const KernelTable& kernels(Device device);

}  // namespace tutti::tensor
