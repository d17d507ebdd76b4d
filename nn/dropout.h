// Dropout and stochastic depth: in training they drop at random and scale up the rest; in evaluation they do nothing.
// What they drop is drawn from the samples' keys (sample_keys.h), which training therefore needs. `layer` tells the
// layers of a model apart: 0, 1, ... in the order of construction, and never equal for two of them.
#pragma once

#include <tutti/nn/module.h>

#include <cstdint>

namespace tutti::nn {

/// Drops single elements. Source: Srivastava et al., JMLR 15 (2014), https://jmlr.org/papers/v15/srivastava14a.html
class Dropout : public Module {
 public:
  /// Throws std::invalid_argument unless 0 <= p < 1.
  Dropout(double p, std::uint64_t layer);
  Variable forward(const Variable& input) override;
  std::string describe() const override;

 private:
  double p_;
  std::uint64_t layer_;
};

/// Drops a whole sample's residual branch (N, ..., C). Source: Huang et al., https://arxiv.org/abs/1603.09382, as
/// torchvision's mode "row".
class StochasticDepth : public Module {
 public:
  /// Throws std::invalid_argument unless 0 <= p < 1.
  StochasticDepth(double p, std::uint64_t layer);
  Variable forward(const Variable& input) override;
  std::string describe() const override;

 private:
  double p_;
  std::uint64_t layer_;
};

}  // namespace tutti::nn
