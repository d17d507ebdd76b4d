// Samples that do not go round: every run ends, counts what it should, and does not depend on the number of ranks.

#include <gtest/gtest.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/data/sampler.h>
#include <tutti/trainer/run_inputs.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kTest = 101;

std::int64_t sum_of(const std::vector<std::vector<std::int64_t>>& matrix) {
  std::int64_t total = 0;
  for (const auto& row : matrix) total = std::accumulate(row.begin(), row.end(), total);
  return total;
}

class UnevenData : public SmallTraining {
 protected:
  /// 86 samples: 7 ranks have 13, 13, 12, ... of them; with batches of 12 only two ranks have a second one.
  UnevenData() : SmallTraining(86, kTest, 2, 12) {}
};

TEST_F(UnevenData, PaddedCutOrAsItIsEveryRunEndsAndCountsTheTestSetOnce) {
  for (const auto& [drop_last, padding] : {std::pair(false, true), {true, true}, {false, false}}) {
    options_.drop_last = drop_last;
    options_.padding = padding;
    const RunReport report = train_on(7, options_).reports[0];
    EXPECT_EQ(report.epochs.size(), 2u);
    EXPECT_EQ(sum_of(report.confusion_matrix), kTest);
    EXPECT_LT(report.epochs[1].train_loss, report.epochs[0].train_loss);
  }
}

TEST_F(UnevenData, WithoutPaddingTheMeanIsOverTheTrueSamples) {
  options_.padding = false;
  options_.epochs = 1;
  options_.batch_size = 84;
  const RunReport one = train_on(1, options_).reports[0];
  options_.batch_size = 12;  // the second step: one sample on each of two ranks, none on five
  const RunReport seven = train_on(7, options_).reports[0];
  EXPECT_NEAR(seven.epochs[0].train_loss / one.epochs[0].train_loss, 1.0, 1e-6);
  EXPECT_NEAR(*seven.epochs[0].test_loss / *one.epochs[0].test_loss, 1.0, 1e-5);
  EXPECT_EQ(seven.confusion_matrix, one.confusion_matrix);
}

TEST_F(UnevenData, NothingToTrainOrTestIsSaidBeforeTheFirstStep) {
  const auto expect_error = [&](const std::string& text) {
    const std::string error = error_of([&] { train_on(4, options_); });
    for (const char* rank : {"rank 0: ", "rank 3: "}) test::expect_parts(error, {rank + text});
  };
  write_small_mnist(folder_ / "data", 3, 1);
  options_.drop_last = true;
  expect_error("--drop-last leaves no step: mnist train has 3 samples, a step of all 4 ranks takes 48");
  options_.drop_last = false;
  EXPECT_EQ(train_on(4, options_).reports[0].epochs.size(), 2u);
  write_small_mnist(folder_ / "data", 0, 1);
  expect_error("mnist train has no samples");
  write_small_mnist(folder_ / "data", 3, 0);
  expect_error("mnist test has no samples");
}

TEST_F(UnevenData, DropLastLeavesOutTheIncompleteBatch) {
  options_.drop_last = true;
  options_.batch_size = 50;
  test::run_ranks(1, [&](comm::ProcessGroup& group) {
    EXPECT_EQ(open_inputs(options_, group).sampler->total(), 50);  // of 86
  });
}

TEST(BatchNorm, ABatchOfOneSampleIsSaidBeforeTheFirstStep) {
  const TemporaryFolder folder;
  TrainOptions options = small_mercer(folder / "scenes", "resnet18");
  options.image_size = 32;  // comes down to single pixels
  options.batch_size = 83;
  for (const int joins : {2, 1, 0}) {
    options.sync_batch_norm = joins == 1;
    options.reproducible = joins == 2;
    const std::string error = error_of([&] { train_on(1, options); });
    test::expect_parts(error, {"resnet18's batch norm can take no statistics: --batch-size 84, 85, "});
  }
  options.drop_last = true;
  EXPECT_EQ(error_of([&] { train_on(1, options); }), "");
}

TEST(UnevenSampler, WithoutPaddingEachSampleComesOnce) {
  for (const int ranks : {1, 2, 7, 12}) {
    std::multiset<std::int64_t> seen;
    std::int64_t total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const DistributedSampler sampler({.count = 61, .replicas = ranks, .rank = rank, .padding = false});
      const auto mine = sampler.indices(3);
      EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(mine.size()));
      EXPECT_EQ(sampler.total(), 61);
      total += sampler.size();
      seen.insert(mine.begin(), mine.end());
    }
    EXPECT_EQ(total, 61);
    for (std::int64_t i = 0; i < 61; ++i) EXPECT_EQ(seen.count(i), 1u) << ranks << " ranks, sample " << i;
  }
}

TEST(UnevenSampler, StepsOfAllRanksAddUp) {
  for (const bool padding : {true, false}) {
    const int ranks = 7;
    const std::int64_t batch = 4;
    const DistributedSampler first({.count = 61, .replicas = ranks, .padding = padding});
    for (std::int64_t step = 0; step < 4; ++step) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        sum += std::clamp<std::int64_t>(first.size_of(rank) - step * batch, 0, batch);
      }
      EXPECT_EQ(first.samples_of_step(step, batch), sum) << "step " << step << ", padding " << padding;
    }
  }
}

TEST(UnevenSampler, AMultipleMakesTheEpochTheSameForAllItsDivisors) {
  for (const bool drop_last : {false, true}) {
    for (const int ranks : {1, 2, 3, 4, 6, 12}) {
      const DistributedSampler sampler({.count = 61, .replicas = ranks, .drop_last = drop_last, .multiple = 12});
      EXPECT_EQ(sampler.total(), drop_last ? 60 : 72) << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace tutti::trainer
