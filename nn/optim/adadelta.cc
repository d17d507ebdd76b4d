// Adadelta (Zeiler, https://arxiv.org/abs/1212.5701), PyTorch's torch.optim.Adadelta. One step of a parameter p:
//   g = g + weight_decay p
//   s = rho s + (1 - rho) g^2
//   d = sqrt(a + epsilon) / sqrt(s + epsilon) * g
//   a = rho a + (1 - rho) d^2
//   p = p - learning_rate d
// One pass over memory per parameter.
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/parameter_view.h>

#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::Tensor;
using tensor::Variable;

class Adadelta : public Optimizer {
 public:
  Adadelta(std::vector<Variable> parameters, const AdadeltaOptions& options)
      : Optimizer(std::move(parameters)), options_(options) {
    check_parameters(name(), parameters_);
    check_not_negative(name(), "learning_rate", options.learning_rate);
    check_not_negative(name(), "epsilon", options.epsilon);
    check_not_negative(name(), "weight_decay", options.weight_decay);
    if (!(options.rho >= 0 && options.rho <= 1)) {
      throw std::invalid_argument("adadelta: rho is " + std::to_string(options.rho) + ", expected 0 to 1");
    }
    learning_rate_ = options.learning_rate;
    squares_ = zeros_like(parameters_);
    deltas_ = zeros_like(parameters_);
  }

  void step() override {
    Updates updates;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].has_grad()) continue;
      tensor::UpdatedParameter update = view_of(name(), i, parameters_[i]);
      update.first = floats_of(squares_[i]);
      update.second = floats_of(deltas_[i]);
      updates.add(parameters_[i].data().device(), update);
    }
    const tensor::AdadeltaRule rule{.learning_rate = static_cast<float>(learning_rate_),
                                    .rho = static_cast<float>(options_.rho),
                                    .one_minus_rho = static_cast<float>(1 - options_.rho),
                                    .epsilon = static_cast<float>(options_.epsilon),
                                    .weight_decay = static_cast<float>(options_.weight_decay)};
    updates.for_each(
        [&](const auto& kernels, auto device, auto parameters) { kernels.adadelta_update(device, parameters, rule); });
  }

  std::string_view name() const override { return "adadelta"; }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      all.emplace_back(std::to_string(i) + ".square_avg", squares_[i]);
      all.emplace_back(std::to_string(i) + ".acc_delta", deltas_[i]);
    }
    return all;
  }

 private:
  AdadeltaOptions options_;
  std::vector<Tensor> squares_;  // s
  std::vector<Tensor> deltas_;   // a
};

}  // namespace

std::unique_ptr<Optimizer> make_adadelta(std::vector<Variable> parameters, const AdadeltaOptions& options) {
  return std::make_unique<Adadelta>(std::move(parameters), options);
}

}  // namespace tutti::nn
