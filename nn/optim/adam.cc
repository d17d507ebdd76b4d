// Adam (Kingma & Ba, https://arxiv.org/abs/1412.6980) and AdamW (Loshchilov & Hutter,
// https://arxiv.org/abs/1711.05101), PyTorch's torch.optim.Adam and AdamW. Step t of a parameter p:
//   g = g + weight_decay p                              (Adam)
//   p = p (1 - learning_rate weight_decay)              (AdamW: decoupled_weight_decay)
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
// One pass over memory per parameter. The bias corrections are computed in double, once per step.
#include <tutti/nn/optim/in_parts.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/optim/parameter_view.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

using tensor::DType;
using tensor::Tensor;
using tensor::Variable;

struct Coefficients {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float step_size;     // learning_rate / (1 - beta1^t)
  float weight_decay;  // added to the gradient
  float keep;          // what the decoupled weight decay leaves of a parameter
};

// 1 / x for x > 0, to the last bit or two. A division costs as much as all the rest of the update; this is a guess from
// the exponent's bits and three Newton steps, each of which squares the relative error (0.12 at first). Unlike the
// processors' approximate reciprocals it gives the same bits on all of them, so that replicas stay equal in a mixed
// cluster.
inline float reciprocal(float x) {
  constexpr std::uint32_t kGuess = 0x7ef311c7u;
  float y = std::bit_cast<float>(kGuess - std::bit_cast<std::uint32_t>(x));
  y = y * (2.0F - x * y);
  y = y * (2.0F - x * y);
  return y * (2.0F - x * y);
}

void update(const ParameterView& p, float* __restrict m, float* __restrict v, const Coefficients& c) {
  float* __restrict values = p.values;
  const float* __restrict gradients = p.gradient;
  // Beyond it the guess of `reciprocal` leaves the range of float: an overflown v then means no update, as in PyTorch.
  // The order of the arguments lets a NaN through.
  constexpr float kLargest = 0x1p120F;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = gradients[i] + c.weight_decay * values[i];
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * gradient * gradient;
    const float denominator = std::min(std::sqrt(v[i]) * c.root_scale + c.epsilon, kLargest);
    values[i] = c.keep * values[i] - c.step_size * m[i] * reciprocal(denominator);
  }
}

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
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].has_grad()) continue;
      const ParameterView view = view_of(name(), i, parameters_[i]);
      const Coefficients c = coefficients(++*steps_[i].data<std::int64_t>());
      float* const m = first_moments_[i].data<float>();
      float* const v = second_moments_[i].data<float>();
      in_parts(view.count,
               [&](std::int64_t begin, std::int64_t end) { update(view.part(begin, end), m + begin, v + begin, c); });
    }
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
  Coefficients coefficients(std::int64_t t) const {
    const auto exponent = static_cast<double>(t);
    const bool decoupled = options_.decoupled_weight_decay;
    const double correction1 = 1 - std::pow(options_.beta1, exponent);
    const double correction2 = 1 - std::pow(options_.beta2, exponent);
    return {.beta1 = static_cast<float>(options_.beta1),
            .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
            .beta2 = static_cast<float>(options_.beta2),
            .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
            .root_scale = static_cast<float>(1 / std::sqrt(correction2)),
            .epsilon = static_cast<float>(options_.epsilon),
            .step_size = static_cast<float>(learning_rate_ / correction1),
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
