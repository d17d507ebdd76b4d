#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/compare_runs.h>

#include <cmath>
#include <limits>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;

RankSteps rank_with(int rank, const std::vector<double>& losses, std::int64_t samples = 8) {
  RankSteps steps{.rank = rank, .records = {}};
  for (const double loss : losses) {
    const auto step = static_cast<std::int64_t>(steps.records.size());
    steps.records.push_back({.epoch = 1, .step = step, .global_step = step, .loss = loss, .samples = samples});
  }
  return steps;
}

TEST(CompareRuns, RelativeDifference) {
  EXPECT_EQ(relative_difference(1, 1), 0);
  EXPECT_EQ(relative_difference(-0.0, 0.0), 0);
  EXPECT_EQ(relative_difference(std::nan(""), std::nan("")), 0);
  EXPECT_DOUBLE_EQ(relative_difference(1, 2), 0.5);
  EXPECT_EQ(relative_difference(std::nan(""), 1), std::numeric_limits<double>::infinity());
}

TEST(CompareRuns, TheEarliestStepOfAnyRankIsFound) {
  const std::vector<RankSteps> a = {rank_with(0, {4, 3, 2, 1}), rank_with(1, {4, 3, 2, 1})};
  const std::vector<RankSteps> b = {rank_with(0, {4, 3, 2, 1.5}), rank_with(1, {4, std::nextafter(3.0, 4), 2, 1})};
  EXPECT_FALSE(first_loss_difference(a, a, 0));
  const auto first = first_loss_difference(a, b, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->a.global_step, 1);
  EXPECT_EQ(first->rank, 1);
  EXPECT_EQ(first->a.loss, 3);
  const auto coarse = first_loss_difference(a, b, 1e-6);
  ASSERT_TRUE(coarse);
  EXPECT_EQ(coarse->a.global_step, 3);
  EXPECT_EQ(coarse->rank, 0);
  EXPECT_FALSE(first_loss_difference(a, b, 0.5));
}

TEST(CompareRuns, AnotherNumberOfRanksIsComparedByMeans) {
  const std::vector<RankSteps> two = {rank_with(0, {4, 2}, 30), rank_with(1, {8, 2}, 10)};
  EXPECT_FALSE(first_loss_difference(two, {rank_with(0, {5, 2}, 40)}, 0));
  const auto first = first_loss_difference(two, {rank_with(0, {5, 2.5}, 40)}, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->a.global_step, 1);
  EXPECT_FALSE(first->rank);
  EXPECT_FALSE(first_loss_difference(two, {rank_with(3, {})}, 0));  // no common step
}

TEST(CompareRuns, TheFirstTensorAndElementAreNamed) {
  const auto floats = [](std::vector<float> values) { return Tensor::from<float>(Shape{2, 2}, values); };
  const NamedTensors a = {{"same", floats({1, 2, 3, 4})}, {"w", floats({1, 2, 3, 4})}, {"z", floats({0, 0, 0, 1})}};
  NamedTensors b = {{"same", floats({1, 2, 3, 4})}, {"w", floats({1, 2, 3.5F, 4.25F})}, {"z", floats({0, 0, 0, 2})}};
  std::size_t differing = 99;
  EXPECT_FALSE(first_tensor_difference(a, a, 0, differing));
  EXPECT_EQ(differing, 0u);
  auto first = first_tensor_difference(a, b, 0, differing);
  ASSERT_TRUE(first);
  EXPECT_EQ(differing, 2u);
  EXPECT_EQ(first->name, "w");
  EXPECT_EQ(first->index, "[1, 0]");
  EXPECT_EQ(first->a, 3);
  EXPECT_EQ(first->b, 3.5);
  EXPECT_EQ(first->largest, 0.5);
  EXPECT_EQ(first->elements, 2);
  first = first_tensor_difference(a, b, 0.2, differing);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->name, "z");

  b = {{"same", Tensor::from<float>(Shape{4}, {1, 2, 3, 4})}, {"extra", floats({0, 0, 0, 0})}};
  first = first_tensor_difference(a, b, 0, differing);
  EXPECT_EQ(first->name, "same");
  test::expect_parts(first->what, {"(2, 2)"});
  EXPECT_EQ(differing, 4u);  // same; w and z only in a; extra only in b
  b = {a[0], {"w", Tensor::from<std::int64_t>(Shape{2, 2}, {1, 2, 3, 4})}, a[2]};
  test::expect_parts(first_tensor_difference(a, b, 0, differing)->what, {"int64"});
}

TEST(CompareRuns, NumbersThatAreNoneAreEqualToEachOtherOnly) {
  const double none = std::nan("");
  std::size_t differing = 0;
  const NamedTensors a = {{"w", Tensor::from<double>(Shape{2}, {none, 1})}};
  EXPECT_FALSE(first_tensor_difference(a, {{"w", Tensor::from<double>(Shape{2}, {none, 1})}}, 0, differing));
  const auto first = first_tensor_difference(a, {{"w", Tensor::from<double>(Shape{2}, {1, 1})}}, 0.1, differing);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->index, "[0]");
  EXPECT_TRUE(std::isnan(first->largest));
}

TEST(CompareRuns, WithoutAnythingInCommonItSaysSo) {
  const TemporaryFolder a, b;
  for (const TemporaryFolder* folder : {&a, &b}) replace_file(*folder / "options.json", R"({"lr":"1"})");
  test::expect_parts(error_of([&] { compare_runs(a.path(), b.path(), 0); }), {"nothing of these runs can be compared"});
}

}  // namespace
}  // namespace tutti::trainer
