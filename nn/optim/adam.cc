// Adam (Kingma & Ba, https://arxiv.org/abs/1412.6980) and AdamW (Loshchilov & Hutter,
// https://arxiv.org/abs/1711.05101), PyTorch's torch.optim.Adam and AdamW. Step t of a parameter p:
//   g = g + weight_decay p                              (Adam)
//   p = p (1 - learning_rate weight_decay)              (AdamW: decoupled_weight_decay)
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
// One pass over memory per parameter, all of them in one call of the device. The bias corrections are computed in
// double, once per step.
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/parameter_view.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::DType;
using tensor::Tensor;
using tensor::Variable;

void check_beta(std::string_view optimizer, const char* option, double value) {
  if (!(value >= 0 && value < 1)) {
    throw std::invalid_argument(std::string(optimizer) + ": " + option + " is " + std::to_string(value) +
                                ", expected at least 0 and below 1");
  }
}

class Adam : public Optimizer {
 public:
  Adam(std::vector<Variable> parameters, const AdamOptions& options)
      : Optimizer(std::move(parameters)), options_(options) {
    check_parameters(name(), parameters_);
    check_not_negative(name(), "learning_rate", options.learning_rate);
    check_not_negative(name(), "epsilon", options.epsilon);
    check_not_negative(name(), "weight_decay", options.weight_decay);
    check_beta(name(), "beta1", options.beta1);
    check_beta(name(), "beta2", options.beta2);
    learning_rate_ = options.learning_rate;
    first_moments_ = zeros_like(parameters_);
    second_moments_ = zeros_like(parameters_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      steps_.push_back(Tensor::zeros({1}, DType::Int64));
    }
  }

  void step() override {
    Updates updates;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].has_grad()) continue;
      tensor::UpdatedParameter update = view_of(name(), i, parameters_[i]);
      const auto t = static_cast<double>(++*steps_[i].data<std::int64_t>());
      update.first = floats_of(first_moments_[i]);
      update.second = floats_of(second_moments_[i]);
      update.rate = static_cast<float>(learning_rate_ / (1 - std::pow(options_.beta1, t)));
      update.scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
      updates.add(parameters_[i].data().device(), update);
    }
    updates.for_each([rule = this->rule()](const auto& kernels, auto device, auto parameters) {
      kernels.adam_update(device, parameters, rule);
    });
  }

  std::string_view name() const override { return options_.decoupled_weight_decay ? "adamw" : "adam"; }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string index = std::to_string(i);
      all.emplace_back(index + ".step", steps_[i]);
      all.emplace_back(index + ".exp_avg", first_moments_[i]);
      all.emplace_back(index + ".exp_avg_sq", second_moments_[i]);
    }
    return all;
  }

 private:
  tensor::AdamRule rule() const {
    const bool decoupled = options_.decoupled_weight_decay;
    return {.beta1 = static_cast<float>(options_.beta1),
            .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
            .beta2 = static_cast<float>(options_.beta2),
            .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
            .epsilon = static_cast<float>(options_.epsilon),
            .weight_decay = decoupled ? 0.0F : static_cast<float>(options_.weight_decay),
            .keep = decoupled ? static_cast<float>(1 - learning_rate_ * options_.weight_decay) : 1.0F};
  }

  AdamOptions options_;
  std::vector<Tensor> first_moments_;   // m
  std::vector<Tensor> second_moments_;  // v
  std::vector<Tensor> steps_;           // t, one int64 each: a parameter without a gradient does not advance
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(std::vector<Variable> parameters, const AdamOptions& options) {
  return std::make_unique<Adam>(std::move(parameters), options);
}

}  // namespace tutti::nn
