#include <gtest/gtest.h>
#include <tutti/trainer/report/step_times.h>

namespace tutti::trainer {
namespace {

RankSteps rank_with(int rank, std::int64_t count, double own, double wait) {
  RankSteps steps{.rank = rank, .records = {}};
  for (std::int64_t step = 0; step < count; ++step) {
    steps.records.push_back(
        {.epoch = 1, .step = step, .global_step = step, .samples = 8, .seconds = own + wait, .wait_seconds = wait});
  }
  return steps;
}

TEST(StepTimes, TheRankThatWaitsLeastIsTheStraggler) {
  const StepTimes times =
      step_times({rank_with(0, 50, 1.0, 0.5), rank_with(1, 50, 1.5, 0), rank_with(2, 50, 1.1, 0.4)});
  ASSERT_EQ(times.ranks.size(), 3u);
  EXPECT_FALSE(times.ranks[0].is_straggler);
  EXPECT_TRUE(times.ranks[1].is_straggler);
  EXPECT_FALSE(times.ranks[2].is_straggler);
  EXPECT_NEAR(times.ranks[1].slowdown, 1.5 / 1.1, 1e-9);
  EXPECT_DOUBLE_EQ(times.ranks[1].last_share, 1);
  EXPECT_DOUBLE_EQ(times.ranks[0].last_share, 0);
  EXPECT_NEAR(times.ranks[0].seconds, 1.5, 1e-9);
  EXPECT_NEAR(times.ranks[0].own_seconds(), 1.0, 1e-9);
  EXPECT_TRUE(times.slow_steps.empty());
}

TEST(StepTimes, WarmUpIsNotCountedAndSlowStepsAreNamed) {
  auto steps = rank_with(0, 50, 1.0, 0);
  steps.records[0].seconds = 1000;
  steps.records[30].seconds = 20;
  steps.records[40].seconds = 30;
  const StepTimes times = step_times({steps});
  EXPECT_FALSE(times.ranks[0].is_straggler);  // there is nobody else
  ASSERT_EQ(times.slow_steps.size(), 2u);
  EXPECT_EQ(times.slow_steps[0].record.step, 40);
  EXPECT_EQ(times.slow_steps[1].record.step, 30);
  EXPECT_DOUBLE_EQ(times.slow_steps[0].usual_seconds, 1.0);
}

TEST(StepTimes, RanksWithOtherStepsAreComparedWhereBothHaveThem) {
  auto late = rank_with(1, 20, 2.0, 0);
  late.records.erase(late.records.begin(), late.records.begin() + 5);
  const StepTimes times = step_times({rank_with(0, 10, 1.0, 1.0), late});
  EXPECT_DOUBLE_EQ(times.ranks[1].last_share, 1);
  EXPECT_TRUE(step_times({}).ranks.empty());
}

}  // namespace
}  // namespace tutti::trainer
