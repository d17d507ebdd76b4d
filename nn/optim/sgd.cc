// Stochastic gradient descent, PyTorch's torch.optim.SGD (dampening 0, no Nesterov):
//   g' = g + weight_decay p;  b = momentum b + g';  p = p - learning_rate b     (b = g' without momentum)
// The momentum buffer begins as zeros, which after the first step is the same as PyTorch's beginning as a copy of g'.
#include <tutti/nn/optim/flush_denormals.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/parameter_view.h>

#include <string>

namespace tutti::nn {
namespace {

using tensor::Tensor;
using tensor::Variable;

void update(const ParameterView& p, float learning_rate, float weight_decay) {
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = p.gradient[i] + weight_decay * p.values[i];
    p.values[i] -= learning_rate * gradient;
  }
}

void update_with_momentum(const ParameterView& p, float* __restrict buffer, float learning_rate, float weight_decay,
                          float momentum) {
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = p.gradient[i] + weight_decay * p.values[i];
    buffer[i] = momentum * buffer[i] + gradient;
    p.values[i] -= learning_rate * buffer[i];
  }
}

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<Variable> parameters, const SgdOptions& options)
      : Optimizer(std::move(parameters)), options_(options) {
    check_parameters(name(), parameters_);
    check_not_negative(name(), "learning_rate", options.learning_rate);
    check_not_negative(name(), "momentum", options.momentum);
    check_not_negative(name(), "weight_decay", options.weight_decay);
    learning_rate_ = options.learning_rate;
    if (options.momentum != 0) {
      momentum_buffers_ = zeros_like(parameters_);
    }
  }

  void step() override {
    const FlushDenormals flush;
    const auto learning_rate = static_cast<float>(learning_rate_);
    const auto weight_decay = static_cast<float>(options_.weight_decay);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].has_grad()) {
        continue;
      }
      const ParameterView view = view_of(name(), i, parameters_[i]);
      if (momentum_buffers_.empty()) {
        update(view, learning_rate, weight_decay);
      } else {
        update_with_momentum(view, momentum_buffers_[i].data<float>(), learning_rate, weight_decay,
                             static_cast<float>(options_.momentum));
      }
    }
  }

  std::string_view name() const override { return "sgd"; }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (std::size_t i = 0; i < momentum_buffers_.size(); ++i) {
      all.emplace_back(std::to_string(i) + ".momentum_buffer", momentum_buffers_[i]);
    }
    return all;
  }

 private:
  SgdOptions options_;
  std::vector<Tensor> momentum_buffers_;  // empty without momentum
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(std::vector<Variable> parameters, const SgdOptions& options) {
  return std::make_unique<Sgd>(std::move(parameters), options);
}

}  // namespace tutti::nn
