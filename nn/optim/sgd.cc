// Stochastic gradient descent, PyTorch's torch.optim.SGD. One step of a parameter p:
//   g' = g + weight_decay p
//   b  = momentum b + (1 - dampening) g'      (the first step: b = g')
//   p  = p - learning_rate d,  where d = g' without momentum, b with it, g' + momentum b with Nesterov's
// The momentum buffer begins as zeros; without dampening that needs no case for the first step.
// Source: https://pytorch.org/docs/stable/generated/torch.optim.SGD.html; Nesterov's form: Sutskever et al., "On the
// importance of initialization and momentum in deep learning", ICML 2013.
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/parameter_view.h>

#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::DType;
using tensor::Tensor;
using tensor::Variable;

void check(const SgdOptions& options) {
  check_not_negative("sgd", "learning_rate", options.learning_rate);
  check_not_negative("sgd", "momentum", options.momentum);
  check_not_negative("sgd", "dampening", options.dampening);
  check_not_negative("sgd", "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw std::invalid_argument("sgd: nesterov with momentum " + std::to_string(options.momentum) + " and dampening " +
                                std::to_string(options.dampening) + ", expected momentum above 0 and no dampening");
  }
}

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<Variable> parameters, const SgdOptions& options)
      : Optimizer(std::move(parameters)), options_(options) {
    check_parameters(name(), parameters_);
    check(options);
    learning_rate_ = options.learning_rate;
    if (options.momentum != 0) momentum_buffers_ = zeros_like(parameters_);
    for (std::size_t i = 0; i < momentum_buffers_.size() && options.dampening != 0; ++i) {
      steps_.push_back(Tensor::zeros({1}, DType::Int64));
    }
  }

  void step() override {
    Updates updates;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].has_grad()) continue;
      tensor::UpdatedParameter update = view_of(name(), i, parameters_[i]);
      update.rate = next_gain(i);
      if (!momentum_buffers_.empty()) update.first = floats_of(momentum_buffers_[i]);
      updates.add(parameters_[i].data().device(), update);
    }
    const tensor::SgdRule rule{.learning_rate = static_cast<float>(learning_rate_),
                               .weight_decay = static_cast<float>(options_.weight_decay),
                               .momentum = static_cast<float>(options_.momentum),
                               .nesterov = options_.nesterov};
    updates.for_each(
        [&](const auto& kernels, auto device, auto parameters) { kernels.sgd_update(device, parameters, rule); });
  }

  std::string_view name() const override { return "sgd"; }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (std::size_t i = 0; i < momentum_buffers_.size(); ++i) {
      if (!steps_.empty()) all.emplace_back(std::to_string(i) + ".step", steps_[i]);
      all.emplace_back(std::to_string(i) + ".momentum_buffer", momentum_buffers_[i]);
    }
    return all;
  }

 private:
  // 1 - dampening; 1 in the first step
  float next_gain(std::size_t parameter) {
    const bool dampened = !steps_.empty() && (*steps_[parameter].data<std::int64_t>())++ > 0;
    return dampened ? static_cast<float>(1 - options_.dampening) : 1.0F;
  }

  SgdOptions options_;
  std::vector<Tensor> momentum_buffers_;  // empty without momentum
  std::vector<Tensor> steps_;             // one int64 each; empty unless momentum is dampened
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(std::vector<Variable> parameters, const SgdOptions& options) {
  return std::make_unique<Sgd>(std::move(parameters), options);
}

}  // namespace tutti::nn
