// Optimizer: reads gradients, writes parameters; knows nothing of ranks.
//
// A parameter without a gradient (has_grad() false) is left alone. State is exposed as named tensors so that a
// checkpoint can hold it: names are "<parameter index>.<state>", e.g. "0.exp_avg"; scalars such as the step count are
// 1-element tensors. Update rules: PyTorch's (https://pytorch.org/docs/stable/optim.html), term by term.
#pragma once

#include <tutti/tensor/autograd/variable.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::nn {

class Optimizer {
 public:
  explicit Optimizer(std::vector<tensor::Variable> parameters) : parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;

  virtual void step() = 0;
  void zero_grad();

  virtual std::string_view name() const = 0;                                // "sgd", "adamw"
  virtual std::vector<std::pair<std::string, tensor::Tensor>> state() = 0;  // tensors share the optimizer's memory
  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double value) { learning_rate_ = value; }

 protected:
  std::vector<tensor::Variable> parameters_;
  double learning_rate_ = 1e-3;
};

struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
};
std::unique_ptr<Optimizer> make_sgd(std::vector<tensor::Variable> parameters, const SgdOptions& options);

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // AdamW: parameters shrink by it, gradients do not see it
};
std::unique_ptr<Optimizer> make_adam(std::vector<tensor::Variable> parameters, const AdamOptions& options);

struct AdadeltaOptions {
  double learning_rate = 1;
  double rho = 0.9;  // of both running means
  double epsilon = 1e-6;
  double weight_decay = 0;
};
std::unique_ptr<Optimizer> make_adadelta(std::vector<tensor::Variable> parameters, const AdadeltaOptions& options);

}  // namespace tutti::nn
