// The recorded operations on images. float32 and float64 alike; each checks shapes and types and throws
// std::invalid_argument with them in the text.
//
// Images lie as (N, H, W, C): the channels of a pixel are neighbours, so that every kernel here runs along C without
// turning memory around, and batch norm and a 1x1 convolution see a plain matrix (pixels, channels). Parameters keep
// PyTorch's shapes. Letters: N batch, H W extents, C input channels, O output channels, G groups.
#pragma once

#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/pair.h>

#include <memory>

namespace tutti::tensor {

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;  // zeros on each side
  Pair dilation = 1;
  std::int64_t groups = 1;
  Activation activation = Activation::None;  // applied in the same pass
};

/// x (N, H, W, C), w (O, C/G, KH, KW), b (O) or undefined -> (N, H', W', O) with
/// H' = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1.
/// Source: https://pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
Variable conv2d(const Variable& x, const Variable& w, const Variable& b, const Conv2dOptions& options = {});

struct Pool2dOptions {
  Pair kernel;
  Pair stride = 0;   // 0: the kernel's extents
  Pair padding = 0;  // at most half of the kernel
  bool ceil_mode = false;
  bool count_include_pad = true;  // avg_pool2d only: padding counts in the divisor
};

/// (N, H, W, C) -> (N, H', W', C). Of equal values the first one gets the gradient; NaN wins over every number.
Variable max_pool2d(const Variable& x, const Pool2dOptions& options);
Variable avg_pool2d(const Variable& x, const Pool2dOptions& options);
/// (N, H, W, C) -> (N, output.height, output.width, C), each the mean of its share of the image, as PyTorch cuts it.
Variable adaptive_avg_pool2d(const Variable& x, Pair output);

/// x (N, H, W, C) with channel c of image n times s (N, C).
Variable mul_channels(const Variable& x, const Variable& s);

/// The holders of a batch that lies in parts with several of them (processes, say), this one included. Each runs the
/// same operations in the same order over its own part, which may be empty.
class BatchHolders {
 public:
  virtual ~BatchHolders() = default;
  /// `mine` (n) -> (holders, n): everybody's, in the same order with all of them. Blocks until all have called it.
  virtual Tensor gather(const Tensor& mine) = 0;
  /// Which of gather()'s rows is this holder's.
  virtual int index() const { return 0; }
  /// No holder has more at once; the same for all.
  virtual std::int64_t most_rows() const { return 0; }
  /// Whether sums over images are to be exact: then the same images give the same bits, whichever holder has which,
  /// also where one has all. On the CPU only. The same for all holders.
  virtual bool sums_exactly() const { return false; }
};

struct BatchNormOptions {
  bool training = true;   // false: normalise by the running statistics
  double momentum = 0.1;  // of the running statistics
  double epsilon = 1e-5;
  Activation activation = Activation::None;  // applied in the same pass
  /// If set: training takes the statistics over the parts of all holders, with as many rows as each has; once in
  /// forward, and once in backward if x requires a gradient. Weight and bias get the gradient of this part alone: an
  /// exact sum if holders sum exactly. The numbers that travel lie on the CPU.
  std::shared_ptr<BatchHolders> holders{};
};

/// y = activation((x - mean) / sqrt(variance + epsilon) * weight + bias + residual). x (..., C), statistics over all
/// axes but the last; weight, bias, running_mean and running_variance (C); residual of x's shape or undefined. Training
/// updates the running statistics in place (unbiased variance, as PyTorch) and throws for a single row (of all
/// holders). Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015, https://arxiv.org/abs/1502.03167
Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias, Tensor running_mean,
                    Tensor running_variance, const BatchNormOptions& options, const Variable& residual = {});

}  // namespace tutti::tensor
