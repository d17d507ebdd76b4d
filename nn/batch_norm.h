// BatchNorm2d: normalises each channel over the batch while training, by running statistics in evaluation.
#pragma once

#include <tutti/nn/activation.h>
#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/image_functions.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace tutti::nn {

class BatchNorm2d : public Module, public TakesActivation {
 public:
  /// Parameters "weight" (ones) and "bias" (zeros); buffers "running_mean" (zeros), "running_var" (ones), all
  /// (channels), and "num_batches_tracked" () int64, as PyTorch's. `momentum` is the new batch's part in the running
  /// statistics.
  explicit BatchNorm2d(std::int64_t channels, double momentum = 0.1, double epsilon = 1e-5);

  /// (N, H, W, channels) -> the same shape. In training it changes the buffers, and one pixel in all is too few. Throws
  /// std::invalid_argument naming this layer and the shape found.
  Variable forward(const Variable& input) override;
  Variable forward(const Variable& input, tensor::Activation activation) override;
  /// activation(batch norm(input) + residual), in one pass.
  Variable forward(const Variable& input, tensor::Activation activation, const Variable& residual);
  std::string describe() const override;

  Variable& weight() { return weight_; }
  Variable& bias() { return bias_; }

  /// From now on training takes the statistics over the batch of all `holders`; null: over this one's alone. Then
  /// forward and backward block until the others have come there, too.
  void share_batch_with(std::shared_ptr<tensor::BatchHolders> holders) { holders_ = std::move(holders); }
  bool shares_batch() const { return holders_ != nullptr; }

  /// num_batches_tracked, which lies on the host; to be set where forward is replayed by a graph.
  std::int64_t batches() const { return *batches_.data<std::int64_t>(); }
  void set_batches(std::int64_t batches) { *batches_.data<std::int64_t>() = batches; }

 private:
  std::int64_t channels_;
  double momentum_;
  double epsilon_;
  Variable weight_;
  Variable bias_;
  Tensor running_mean_;
  Tensor running_variance_;
  Tensor batches_;
  std::shared_ptr<tensor::BatchHolders> holders_;
};

}  // namespace tutti::nn
