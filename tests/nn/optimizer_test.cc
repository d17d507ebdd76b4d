#include <gtest/gtest.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tutti::nn {
namespace {

using tensor::DType;
using tensor::Tensor;
using tensor::Variable;
using test::error_of;
using test::expect_near;
using test::grid;
using test::to_vector;
using Parameters = std::vector<Variable>;

struct Rule {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(Parameters)> make;
};

std::vector<Rule> rules() {
  const auto sgd = [](double momentum, double weight_decay) {
    return [=](Parameters p) {
      return make_sgd(std::move(p), {.learning_rate = 0.05, .momentum = momentum, .weight_decay = weight_decay});
    };
  };
  const auto adam = [](const AdamOptions& options) {
    return [=](Parameters p) { return make_adam(std::move(p), options); };
  };
  return {
      {"sgd", sgd(0, 0)},
      {"sgd_weight_decay", sgd(0, 0.1)},
      {"sgd_momentum", sgd(0.9, 0)},
      {"sgd_momentum_weight_decay", sgd(0.9, 0.1)},
      {"sgd_dampening",
       [](Parameters p) {
         return make_sgd(std::move(p), {.learning_rate = 0.05, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1});
       }},
      {"sgd_nesterov",
       [](Parameters p) {
         return make_sgd(std::move(p), {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
       }},
      {"adam", adam({.learning_rate = 0.02})},
      {"adam_weight_decay", adam({.learning_rate = 0.02, .weight_decay = 0.1})},
      {"adam_options", adam({.learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3})},
      {"adamw", adam({.learning_rate = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"adadelta", [](Parameters p) { return make_adadelta(std::move(p), {}); }},
      {"adadelta_options", [](Parameters p) {
         return make_adadelta(std::move(p), {.learning_rate = 0.5, .rho = 0.8, .epsilon = 1e-4, .weight_decay = 0.1});
       }}};
}

Parameters make_parameters() { return {Variable(grid(5, 7, 0.1), true), Variable(grid(1, 3, 0.2).reshape({3}), true)}; }

// The gradient that the golden script gives: half the present value plus a slope that turns with the step.
void set_gradient(Variable& parameter, int step) {
  Tensor gradient = parameter.data().clone();
  const bool wide = parameter.data().rank() == 2;
  const Tensor slope = grid(wide ? 5 : 1, wide ? 7 : 3, 0.02 * (step % 4 - 1));
  for (std::int64_t i = 0; i < gradient.numel(); ++i) {
    gradient.data<float>()[i] = 0.5F * gradient.data<float>()[i] + slope.data<float>()[i];
  }
  parameter.zero_grad();
  parameter.backward(gradient);
}

class Trajectory : public ::testing::TestWithParam<Rule> {};

TEST_P(Trajectory, FiftyStepsEqualPyTorch) {
  const auto golden = test::read_golden("trajectories.txt");
  Parameters parameters = make_parameters();
  const auto optimizer = GetParam().make(parameters);
  for (int step = 1; step <= 50; ++step) {
    for (Variable& parameter : parameters) {
      set_gradient(parameter, step);
    }
    optimizer->step();
    for (std::size_t i = 0; i < parameters.size() && (step <= 2 || step == 10 || step == 50); ++i) {
      const std::string key = GetParam().name + ":" + std::to_string(step) + ":" + std::to_string(i);
      expect_near(to_vector(parameters[i].data()), golden.at(key), 1e-5, key);
    }
  }
  for (const auto& [name, value] : optimizer->state()) {
    if (name.starts_with("0.") && name != "0.step") {
      const std::string key = GetParam().name + ":" + name.substr(2);
      expect_near(to_vector(value), golden.at(key), 1e-5, key);
    }
  }
}

// What a checkpoint does: the state of one optimizer, copied into a fresh one, continues to the same bits.
TEST_P(Trajectory, StateCopiedIntoAFreshOptimizerContinues) {
  Parameters parameters = make_parameters();
  const auto whole = GetParam().make(parameters);
  Parameters copies;
  std::unique_ptr<Optimizer> second;
  for (int step = 1; step <= 20; ++step) {
    if (step == 8) {
      for (const Variable& parameter : parameters) {
        copies.emplace_back(parameter.data().clone(), true);
      }
      second = GetParam().make(copies);
      auto from = whole->state();
      auto to = second->state();
      ASSERT_EQ(from.size(), to.size());
      for (std::size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(from[i].first, to[i].first);
        to[i].second.copy_from(from[i].second);
      }
    }
    for (Parameters* group : {&parameters, &copies}) {
      for (Variable& parameter : *group) {
        set_gradient(parameter, step);
      }
    }
    whole->step();
    if (second != nullptr) {
      second->step();
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(to_vector(parameters[i].data()), to_vector(copies[i].data()));
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Trajectory, ::testing::ValuesIn(rules()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(Optimizer, LeavesAParameterWithoutAGradientAlone) {
  for (const Rule& rule : rules()) {
    Parameters parameters = make_parameters();
    const auto optimizer = rule.make(parameters);
    set_gradient(parameters[0], 1);
    const auto before = to_vector(parameters[1].data());
    optimizer->step();
    EXPECT_EQ(to_vector(parameters[1].data()), before) << rule.name;
    EXPECT_NE(to_vector(parameters[0].data()), to_vector(grid(5, 7, 0.1))) << rule.name;
  }
}

// Long enough for every thread to get a part; the last part is not a whole number of vectors.
TEST_P(Trajectory, ThreadsChangeNoBit) {
  const auto after_steps = [&](int threads) {
    tensor::set_num_threads(threads);
    Variable parameter(grid(1, 300'007, 0.1), true);
    const auto optimizer = GetParam().make({parameter});
    for (int step = 0; step < 3; ++step) {
      parameter.zero_grad();
      parameter.backward(grid(1, 300'007, 0.02 * (step + 1)));
      optimizer->step();
    }
    tensor::set_num_threads(1);
    return to_vector(parameter.data());
  };
  EXPECT_EQ(after_steps(1), after_steps(3));
}

TEST(Optimizer, StateNamesAndTypes) {
  const auto adam = make_adam(make_parameters(), {});
  std::vector<std::string> names;
  for (const auto& [name, value] : adam->state()) {
    names.push_back(name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"0.step", "0.exp_avg", "0.exp_avg_sq", "1.step", "1.exp_avg", "1.exp_avg_sq"}));
  EXPECT_EQ(adam->state()[0].second.dtype(), DType::Int64);
  EXPECT_EQ(adam->state()[0].second.numel(), 1);
  EXPECT_EQ(adam->name(), "adam");

  const auto sgd = make_sgd(make_parameters(), {.momentum = 0.9});
  EXPECT_EQ(sgd->state().at(1).first, "1.momentum_buffer");
  EXPECT_TRUE(make_sgd(make_parameters(), {})->state().empty());
  EXPECT_EQ(sgd->name(), "sgd");
}

TEST(Optimizer, LearningRateMayChange) {
  Parameters parameters{Variable(Tensor::full({4}, 1), true)};
  const auto sgd = make_sgd(parameters, {.learning_rate = 0.5});
  EXPECT_EQ(sgd->learning_rate(), 0.5);
  sgd->set_learning_rate(0.25);
  parameters[0].backward(Tensor::full({4}, 2));
  sgd->step();
  EXPECT_EQ(to_vector(parameters[0].data()), (std::vector<double>(4, 0.5)));
}

TEST(Optimizer, ZeroGradForgetsGradients) {
  Parameters parameters = make_parameters();
  const auto optimizer = make_sgd(parameters, {});
  set_gradient(parameters[0], 1);
  optimizer->zero_grad();
  EXPECT_FALSE(parameters[0].has_grad());
}

// Gradients over twelve orders of magnitude, against the formula in double.
TEST(Adam, IsAccurateForTinyAndLargeGradients) {
  std::vector<float> gradients;
  for (int exponent = -30; exponent <= 15; ++exponent) {
    gradients.push_back(std::ldexp(1.37F, exponent));
    gradients.push_back(-std::ldexp(1.91F, exponent));
  }
  const auto count = static_cast<std::int64_t>(gradients.size());
  Parameters parameters{Variable(Tensor::zeros({count}), true)};
  const auto adam = make_adam(parameters, {.learning_rate = 1});
  parameters[0].backward(Tensor::from({count}, gradients));
  adam->step();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const double g = gradients[i];
    const double m = (1 - 0.9) * g / (1 - 0.9);
    const double expected = -m / (std::sqrt((1 - 0.999) * g * g) / std::sqrt(1 - 0.999) + 1e-8);
    EXPECT_NEAR(parameters[0].data().data<float>()[i], expected, 2e-6 * std::abs(expected)) << "gradient " << g;
  }
}

TEST(Adam, ZeroGradientMovesNothingAndNanIsNotHidden) {
  const float huge = 1e30F;  // its square overflows
  Parameters parameters{Variable(Tensor::full({3}, 1), true)};
  const auto adam = make_adam(parameters, {.learning_rate = 0.1});
  parameters[0].backward(Tensor::from<float>({3}, {0, std::numeric_limits<float>::quiet_NaN(), huge}));
  adam->step();
  const float* const values = parameters[0].data().data<float>();
  EXPECT_EQ(values[0], 1);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_NEAR(values[2], 1, 1e-2);
}

TEST(Optimizer, ErrorsNameTheOptionOrTheParameter) {
  EXPECT_EQ(error_of([] { make_sgd(make_parameters(), {.learning_rate = -1}); }),
            "sgd: learning_rate is -1.000000, expected 0 or more");
  EXPECT_EQ(error_of([] { make_adam(make_parameters(), {.beta1 = 1}); }),
            "adam: beta1 is 1.000000, expected at least 0 and below 1");
  EXPECT_EQ(error_of([] { make_adam(make_parameters(), {.beta2 = 1, .decoupled_weight_decay = true}); }),
            "adamw: beta2 is 1.000000, expected at least 0 and below 1");
  EXPECT_EQ(error_of([] { make_sgd(make_parameters(), {.nesterov = true}); }),
            "sgd: nesterov with momentum 0.000000 and dampening 0.000000, expected momentum above 0 and no dampening");
  EXPECT_EQ(error_of([] { make_sgd(make_parameters(), {.momentum = 0.9, .dampening = 0.1, .nesterov = true}); }),
            "sgd: nesterov with momentum 0.900000 and dampening 0.100000, expected momentum above 0 and no dampening");
  EXPECT_EQ(error_of([] { make_adadelta(make_parameters(), {.rho = 1.5}); }),
            "adadelta: rho is 1.500000, expected 0 to 1");
  EXPECT_EQ(error_of([] { make_adam(make_parameters(), {.weight_decay = std::nan("")}); }),
            "adam: weight_decay is nan, expected 0 or more");
  EXPECT_EQ(error_of([] { make_adam({Variable(Tensor::zeros({2}, DType::Float64), true)}, {}); }),
            "adam: parameter 0 is float64 (2) on cpu, expected contiguous float32");
  EXPECT_EQ(error_of([] {
              make_sgd({Variable(Tensor::zeros({2, 3}).transpose(0, 1), true)}, {});
            }),
            "sgd: parameter 0 is a strided view of float32 (3, 2) on cpu, expected contiguous float32");
  EXPECT_EQ(error_of([] { make_sgd({Variable()}, {}); }), "sgd: parameter 0 is undefined, expected contiguous float32");
}

// A gradient that has become zero for good: running means must end at zero, not among the slow denormals.
TEST(Optimizer, RunningMeansOfADeadGradientDoNotBecomeDenormal) {
  for (const bool adam : {true, false}) {
    constexpr std::int64_t kCount = 100'000;  // parts for two threads
    Variable parameter(Tensor::full({kCount}, 1.0), true);
    const auto optimizer =
        adam ? make_adam({parameter}, {}) : make_sgd({parameter}, {.learning_rate = 0.1, .momentum = 0.9});
    parameter.backward(Tensor::full({kCount}, 1e-3));
    optimizer->step();
    parameter.zero_grad();
    parameter.backward(Tensor::zeros({kCount}));
    tensor::set_num_threads(2);
    for (int step = 0; step < 2000; ++step) optimizer->step();
    tensor::set_num_threads(1);
    for (auto& [name, state] : optimizer->state()) {
      if (state.dtype() != DType::Float32) continue;
      for (const double value : to_vector(state)) {
        EXPECT_TRUE(value == 0 || std::abs(value) >= std::numeric_limits<float>::min()) << name << " " << value;
      }
    }
  }
}

// Parameters on two devices in one optimizer: each with its gradient and its state.
TEST(Optimizer, StateLiesOnItsParametersDevice) {
  constexpr tensor::Device kSecond{tensor::Device::Kind::Cpu, 1};
  Variable here(Tensor::full({3}, 1.0), true);
  Variable there(Tensor::full({3}, 1.0, DType::Float32, kSecond), true);
  const auto optimizer = make_sgd({here, there}, {.learning_rate = 0.5, .momentum = 0.9});
  EXPECT_EQ(optimizer->state()[0].second.device(), tensor::Device{});
  EXPECT_EQ(optimizer->state()[1].second.device(), kSecond);
  here.backward(Tensor::full({3}, 1.0));
  there.backward(Tensor::full({3}, 1.0, DType::Float32, kSecond));
  optimizer->step();
  EXPECT_EQ(to_vector(here.data()), to_vector(there.data()));

  there.grad() = Tensor::full({3}, 1.0);
  EXPECT_EQ(error_of([&] { optimizer->step(); }),
            "sgd: the gradient of parameter 1 is float32 (3) on cpu, but the parameter is float32 (3) on cpu:1");
}

}  // namespace
}  // namespace tutti::nn
