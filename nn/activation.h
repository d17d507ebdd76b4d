// Activations as modules. They hold no parameters, but take a place in a Sequential's numbering.
#pragma once

#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/functions.h>

namespace tutti::nn {

/// A layer that can apply an activation in its own pass over memory, which saves one for the activation alone.
class TakesActivation {
 public:
  virtual ~TakesActivation() = default;
  virtual Variable forward(const Variable& input, tensor::Activation activation) = 0;
};

/// max(x, 0), element-wise. In a Sequential it costs nothing directly after a layer that TakesActivation: sequential.h.
class ReLU : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "ReLU()"; }
};

/// min(max(x, 0), 6)
class ReLU6 : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "ReLU6()"; }
};

/// x sigmoid(x). Source: https://arxiv.org/abs/1702.03118
class SiLU : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "SiLU()"; }
};

class Sigmoid : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "Sigmoid()"; }
};

class Tanh : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "Tanh()"; }
};

}  // namespace tutti::nn
