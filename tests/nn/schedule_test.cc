#include <gtest/gtest.h>
#include <tutti/nn/optim/clip_grad.h>
#include <tutti/nn/optim/scheduled.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>

#include <cmath>
#include <limits>

namespace tutti::nn {
namespace {

using tensor::Tensor;
using tensor::Variable;
using test::error_of;
using test::grid;
using test::to_vector;

TEST(Schedule, EveryStepEqualsPyTorch) {
  const auto golden = test::read_golden("schedules.txt");
  const std::pair<const char*, Schedule> schedules[] = {
      {"step", step_decay(0.05, 7, 0.3)},
      {"cosine", cosine_annealing(0.05, 25, 0.001)},
      {"one_cycle", one_cycle({.highest = 0.4, .total = 25})},
      {"one_cycle_options",
       one_cycle({.highest = 0.4, .total = 25, .rise = 0.02, .first_divisor = 10, .last_divisor = 50})},
  };
  ASSERT_EQ(golden.size(), std::size(schedules));
  for (const auto& [name, schedule] : schedules) {
    const auto& expected = golden.at(name);
    ASSERT_EQ(expected.size(), 25u);
    for (std::size_t step = 0; step < 25; ++step) {
      EXPECT_NEAR(schedule(static_cast<std::int64_t>(step)), expected[step], 1e-12) << name << " step " << step;
    }
  }
}

TEST(Schedule, TheLastRateStays) {
  EXPECT_DOUBLE_EQ(cosine_annealing(0.1, 10, 0.01)(10), 0.01);
  EXPECT_DOUBLE_EQ(cosine_annealing(0.1, 10, 0.01)(1000), 0.01);
  const Schedule cycle = one_cycle({.highest = 1, .total = 10});
  EXPECT_DOUBLE_EQ(cycle(9), 1 / 25.0 / 1e4);
  EXPECT_DOUBLE_EQ(cycle(1000), cycle(9));
  EXPECT_EQ(constant_rate(0.3)(12345), 0.3);
}

TEST(Schedule, WarmUpClimbsInEqualSteps) {
  const Schedule schedule = with_warm_up(constant_rate(0.4), 4);
  for (const auto& [step, rate] : {std::pair(0, 0.1), {1, 0.2}, {2, 0.3}, {3, 0.4}, {4, 0.4}, {400, 0.4}}) {
    EXPECT_DOUBLE_EQ(schedule(step), rate) << step;
  }
  EXPECT_EQ(with_warm_up(constant_rate(0.4), 0)(0), 0.4);
}

TEST(Schedule, ErrorsNameTheArgument) {
  EXPECT_EQ(error_of([] { step_decay(0.1, 0); }), "step_decay: interval is 0.000000, expected 1 or more");
  EXPECT_EQ(error_of([] { cosine_annealing(-1, 10); }), "cosine_annealing: rate is -1.000000, expected 0 or more");
  EXPECT_EQ(error_of([] { cosine_annealing(1, 0); }), "cosine_annealing: total is 0.000000, expected 1 or more");
  EXPECT_EQ(error_of([] { one_cycle({.total = 1}); }), "one_cycle: total is 1.000000, expected 2 or more");
  EXPECT_EQ(error_of([] { one_cycle({.rise = 2}); }), "one_cycle: rise is 2.000000, expected 0 to 1");
  EXPECT_EQ(error_of([] { with_warm_up(constant_rate(1), -1); }),
            "with_warm_up: steps is -1.000000, expected 0 or more");
  EXPECT_EQ(error_of([] { constant_rate(std::nan("")); }), "constant_rate: rate is nan, expected 0 or more");
}

std::vector<Variable> with_gradients(double scale) {
  std::vector<Variable> parameters{Variable(Tensor::zeros({5, 7}), true), Variable(Tensor::zeros({3}), true),
                                   Variable(Tensor::zeros({4}), true)};  // the last one without
  parameters[0].backward(grid(5, 7, scale));
  parameters[1].backward(grid(1, 3, scale).reshape({3}));
  return parameters;
}

TEST(ClipGradNorm, EqualsPyTorch) {
  const auto golden = test::read_golden("clipping.txt");
  for (const auto& [name, scale] : {std::pair<std::string, double>("long", 0.1), {"short", 0.002}}) {
    auto parameters = with_gradients(scale);
    EXPECT_NEAR(clip_grad_norm(parameters, 0.5), golden.at(name + ":norm")[0], 1e-6) << name;
    for (std::size_t p = 0; p < 2; ++p) {
      const auto& expected = golden.at(name + ":" + std::to_string(p));
      const auto found = to_vector(parameters[p].grad());
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-7) << name << " " << p;
    }
    EXPECT_FALSE(parameters[2].has_grad());
  }
}

TEST(ClipGradNorm, ThreadsChangeNoBit) {
  const auto clipped = [](int threads) {
    tensor::set_num_threads(threads);
    std::vector<Variable> parameters{Variable(Tensor::zeros({1, 300'007}), true)};
    parameters[0].backward(grid(1, 300'007, 0.1));
    const double norm = clip_grad_norm(parameters, 2);
    tensor::set_num_threads(1);
    EXPECT_NEAR(clip_grad_norm(parameters, 100), 2, 1e-5);
    auto result = to_vector(parameters[0].grad());
    result.push_back(norm);
    return result;
  };
  EXPECT_EQ(clipped(1), clipped(3));
}

TEST(ClipGradNorm, RefusesANormOfZero) {
  auto parameters = with_gradients(1);
  EXPECT_EQ(error_of([&] { clip_grad_norm(parameters, 0); }),
            "clip_grad_norm: max_norm is 0.000000, expected more than 0");
}

TEST(Scheduled, ClipsSetsTheRateAndStepsTheInnerOptimizer) {
  std::vector<Variable> parameters{Variable(Tensor::zeros({2}), true)};
  const auto optimizer = make_scheduled(parameters, make_sgd(parameters, {.learning_rate = 99}),
                                        step_decay(0.5, 2, 0.5), /*clip_norm=*/1.0);
  EXPECT_EQ(optimizer->name(), "sgd");
  EXPECT_EQ(optimizer->learning_rate(), 0.5);
  double expected = 0;
  for (const double rate : {0.5, 0.5, 0.25, 0.25, 0.125}) {
    optimizer->zero_grad();
    parameters[0].backward(Tensor::from<float>({2}, {30, 40}));  // of norm 50: clipped to (0.6, 0.8)
    optimizer->step();
    EXPECT_EQ(optimizer->learning_rate(), rate);
    expected -= rate * 0.6;
    EXPECT_NEAR(parameters[0].data().data<float>()[0], expected, 1e-6);
  }
}

TEST(Scheduled, StateContinuesTheSchedule) {
  const auto make = [](std::vector<Variable>& parameters) {
    return make_scheduled(parameters, make_sgd(parameters, {.momentum = 0.9}), cosine_annealing(0.5, 10));
  };
  std::vector<Variable> whole{Variable(Tensor::full({3}, 1.0), true)};
  const auto first = make(whole);
  const auto step = [](std::vector<Variable>& parameters, Optimizer& optimizer) {
    optimizer.zero_grad();
    parameters[0].backward(parameters[0].data().clone());
    optimizer.step();
  };
  for (int i = 0; i < 4; ++i) step(whole, *first);
  std::vector<Variable> copy{Variable(whole[0].data().clone(), true)};
  const auto second = make(copy);
  auto from = first->state();
  auto to = second->state();
  ASSERT_EQ(from.size(), 2u);
  EXPECT_EQ(from[0].first, "0.momentum_buffer");
  EXPECT_EQ(from[1].first, "schedule.step");
  for (std::size_t i = 0; i < 2; ++i) to[i].second.copy_from(from[i].second);
  for (int i = 0; i < 6; ++i) {
    step(whole, *first);
    step(copy, *second);
    EXPECT_EQ(to_vector(whole[0].data()), to_vector(copy[0].data()));
    EXPECT_EQ(first->learning_rate(), second->learning_rate());
  }
}

TEST(Scheduled, RefusesMissingParts) {
  std::vector<Variable> parameters{Variable(Tensor::zeros({2}), true)};
  EXPECT_EQ(error_of([&] { make_scheduled(parameters, nullptr, constant_rate(1)); }),
            "make_scheduled: no optimizer or no schedule");
  EXPECT_EQ(error_of([&] { make_scheduled(parameters, make_sgd(parameters, {}), nullptr); }),
            "make_scheduled: no optimizer or no schedule");
  EXPECT_EQ(error_of([&] { make_scheduled(parameters, make_sgd(parameters, {}), constant_rate(1), -1); }),
            "make_scheduled: clip_norm is -1.000000, expected more than 0");
}

}  // namespace
}  // namespace tutti::nn
