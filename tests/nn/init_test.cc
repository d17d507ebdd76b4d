#include <gtest/gtest.h>
#include <tutti/nn/init.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>

#include <cmath>
#include <functional>

namespace tutti::nn {
namespace {

using tensor::Tensor;
using test::expect_near;
using test::to_vector;

TEST(Init, StaysWithinItsBounds) {
  tensor::Mt19937 generator(3);
  Tensor values = Tensor::empty({1000});
  uniform(values, -0.25, 0.75, generator);
  double sum = 0;
  for (const double value : to_vector(values)) {
    EXPECT_GE(value, -0.25);
    EXPECT_LT(value, 0.75);
    sum += value;
  }
  EXPECT_NEAR(sum / 1000, 0.25, 0.05);
}

TEST(Init, DefaultBoundIsTheInverseRootOfFanIn) {
  EXPECT_NEAR(default_bound(784), 1 / std::sqrt(784.0), 1e-15);
  EXPECT_NEAR(default_bound(3), 1 / std::sqrt(3.0), 1e-15);
}

TEST(Init, RefusesWhatItCannotFill) {
  tensor::Mt19937 generator(0);
  Tensor doubles = Tensor::zeros({3}, tensor::DType::Float64);
  Tensor strided = Tensor::zeros({3, 4}).transpose(0, 1);
  EXPECT_THROW(uniform(doubles, 0, 1, generator), std::invalid_argument);
  EXPECT_THROW(uniform(strided, 0, 1, generator), std::invalid_argument);
}

// One generator through all of them, so that each must take as many numbers as torch takes.
TEST(Init, RulesEqualPyTorch) {
  const auto golden = test::read_golden("init.txt");
  tensor::Mt19937 generator(7);
  const std::pair<const char*, std::function<void(Tensor&)>> rules[] = {
      {"normal_", [&](Tensor& w) { normal(w, 0.5, 0.8, generator); }},
      {"kaiming_normal_fan_out", [&](Tensor& w) { kaiming_normal(w, Fan::Out, generator); }},
      {"kaiming_normal_fan_in", [&](Tensor& w) { kaiming_normal(w, Fan::In, generator); }},
      {"kaiming_uniform_fan_out", [&](Tensor& w) { kaiming_uniform(w, Fan::Out, generator); }},
      {"kaiming_uniform_fan_in", [&](Tensor& w) { kaiming_uniform(w, Fan::In, generator); }},
      {"xavier_normal_", [&](Tensor& w) { xavier_normal(w, generator); }},
      {"xavier_uniform_", [&](Tensor& w) { xavier_uniform(w, generator, 1.5); }},
  };
  ASSERT_EQ(golden.size(), 2 * std::size(rules));
  for (const auto& [name, rule] : rules) {
    for (const tensor::Shape& shape : {tensor::Shape{4, 2, 2, 2}, tensor::Shape{5, 3, 3}}) {  // 32 and 45 elements
      Tensor weight = Tensor::empty(shape);
      rule(weight);
      expect_near(to_vector(weight), golden.at(std::string(name) + ":" + std::to_string(weight.numel())), 1e-6, name);
    }
  }
}

TEST(Init, NormalFillsFewElementsToo) {
  tensor::Mt19937 one(3), other(3);
  Tensor few = Tensor::empty({5});
  Tensor block = Tensor::empty({16});
  normal(few, 1, 2, one);
  normal(block, 1, 2, other);
  EXPECT_EQ(to_vector(few), to_vector(block.narrow(0, 0, 5)));
}

TEST(Init, FansCountTheKernel) {
  EXPECT_EQ(fan_of({8, 4, 3, 5}, Fan::In), 60);
  EXPECT_EQ(fan_of({8, 4, 3, 5}, Fan::Out), 120);
  EXPECT_EQ(fan_of({8, 4}, Fan::Out), 8);
  EXPECT_THROW(fan_of({8}, Fan::In), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::nn
