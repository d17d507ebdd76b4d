// Linear: y = x w^T + b.
#pragma once

#include <tutti/nn/activation.h>
#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/random.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace tutti::nn {

class Linear : public Module, public TakesActivation {
 public:
  /// Parameters "weight" (outputs, inputs) and "bias" (outputs), float32, drawn in this order from `generator` by
  /// PyTorch's default rule (init.h). Throws std::invalid_argument unless both numbers are positive.
  Linear(std::int64_t inputs, std::int64_t outputs, tensor::Mt19937& generator);

  /// input (N, inputs) -> (N, outputs). Throws std::invalid_argument naming this layer and the shape found.
  Variable forward(const Variable& input) override;
  /// The same with an activation applied in the same pass over memory.
  Variable forward(const Variable& input, tensor::Activation activation) override;
  std::string describe() const override;

  Variable& weight() { return weight_; }
  Variable& bias() { return bias_; }

  /// From now on the weight's gradient is that of the batch of all `holders`, of which each computes some rows; their
  /// backward blocks until the others have come there, too. Null: this one holds all of the batch.
  void share_batch_with(std::shared_ptr<tensor::BatchHolders> holders) {
    holders_ = std::move(holders), shares_ = true;
  }
  bool shares_batch() const { return shares_; }

 private:
  std::int64_t inputs_;
  std::int64_t outputs_;
  Variable weight_;
  Variable bias_;
  std::shared_ptr<tensor::BatchHolders> holders_;
  bool shares_ = false;
};

}  // namespace tutti::nn
