// Whole runs with comm hooks and sharding, interrupted and continued.
#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/test_data.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data/mnist.h>
#include <tutti/trainer/train_loop.h>

#include <sstream>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

struct Result {
  RunReport report;
  std::string printed;
};

Result train_on(int ranks, const TrainOptions& options) {
  Result result;
  test::run_ranks(ranks, [&](comm::ProcessGroup& group) {
    std::ostringstream out;
    const RunReport report = train(options, group, 1, {.stream = out});
    if (group.rank() == 0) result = {report, out.str()};
  });
  return result;
}

class ParallelRun : public testing::Test {
 protected:
  ParallelRun() {
    write_small_mnist(folder_ / "data", 480, 101);
    options_.data = folder_ / "data";
    options_.epochs = 2;
    options_.batch_size = 16;
    options_.buckets = {.first_bucket_bytes = 4096, .bucket_cap_bytes = 1 << 16};
  }

  /// Runs to the end of the first epoch on `ranks`, then on `others` with the same global batch.
  RunReport interrupted(TrainOptions options, int ranks, int others) {
    options.checkpoint_dir = folder_ / ("checkpoints" + std::to_string(++runs_));
    options.epochs = 1;
    train_on(ranks, options);
    options.resume = true;
    options.epochs = 2;
    options.batch_size = options.batch_size * ranks / others;
    return train_on(others, options).report;
  }

  TemporaryFolder folder_;
  TrainOptions options_;
  int runs_ = 0;
};

TEST_F(ParallelRun, ShardingChangesNoBitAndNoCheckpoint) {
  const RunReport plain = train_on(2, options_).report;
  options_.shard_optimizer = true;
  const Result sharded = train_on(2, options_);
  EXPECT_EQ(sharded.report.parameter_sha256, plain.parameter_sha256);
  EXPECT_NE(sharded.printed.find("optimizer state: 0.15 MiB on this rank, 0.30 MiB without --shard-optimizer"),
            std::string::npos)
      << sharded.printed;
  EXPECT_EQ(interrupted(options_, 2, 2).parameter_sha256, plain.parameter_sha256);

  // Written without shards and read with them, and the other way round, on other ranks.
  TrainOptions options = options_;
  options.checkpoint_dir = folder_ / "mixed";
  options.epochs = 1;
  options.shard_optimizer = false;
  train_on(2, options);
  options.resume = options.shard_optimizer = true;
  options.epochs = 2;
  EXPECT_EQ(train_on(2, options).report.parameter_sha256, plain.parameter_sha256);
  for (const int others : {1, 4}) {
    const RunReport other = interrupted(options_, 2, others);
    EXPECT_NEAR(other.epochs[1].train_loss / plain.epochs[1].train_loss, 1, 1e-4) << others;
  }
}

TEST_F(ParallelRun, ShardingGoesWithSchedulesAndClipping) {
  options_.optimizer = "sgd";
  options_.learning_rate = 0.1;
  options_.momentum = 0.9;
  options_.schedule = "cosine";
  options_.warm_up_epochs = 1;
  options_.clip_norm = 0.5;
  const RunReport plain = train_on(2, options_).report;
  options_.shard_optimizer = true;
  const RunReport sharded = train_on(2, options_).report;
  for (std::size_t e = 0; e < 2; ++e) {
    EXPECT_NEAR(sharded.epochs[e].train_loss / plain.epochs[e].train_loss, 1, 1e-6);
  }
}

TEST_F(ParallelRun, EachHookTrainsAndContinuesBitForBit) {
  const RunReport plain = train_on(2, options_).report;
  for (const std::string hook : {"bf16", "fp16", "topk"}) {
    options_.comm_hook = hook;
    if (hook == "topk") options_.topk_density = 0.1;
    const Result whole = train_on(2, options_);
    EXPECT_NE(whole.printed.find("gradients travel by " + hook), std::string::npos) << whole.printed;
    EXPECT_NE(whole.report.parameter_sha256, plain.parameter_sha256) << hook;
    EXPECT_NEAR(whole.report.epochs[1].train_loss / plain.epochs[1].train_loss, 1, 0.25) << hook;
    EXPECT_EQ(interrupted(options_, 2, 2).parameter_sha256, whole.report.parameter_sha256) << hook;
    for (const int others : {1, 4}) {
      EXPECT_LT(interrupted(options_, 2, others).epochs[1].train_loss, whole.report.epochs[0].train_loss) << hook;
    }
    options_.topk_density.reset();
  }
}

TEST_F(ParallelRun, AContinuationKeepsItsHook) {
  options_.comm_hook = "topk";
  options_.checkpoint_dir = folder_ / "checkpoints";
  options_.epochs = 1;
  train_on(2, options_);
  options_.resume = true;
  options_.topk_density = 0.5;
  const std::string text = error_of([&] { train_on(2, options_); });
  EXPECT_NE(text.find("topk-density was 0.05, now 0.5"), std::string::npos) << text;
}

TEST_F(ParallelRun, ModelsWithoutBatchNormHaveNothingToSynchronise) {
  options_.sync_batch_norm = true;
  const std::string text = error_of([&] { train_on(2, options_); });
  EXPECT_NE(text.find("--sync-batch-norm: mlp has no batch norm; leave the option out"), std::string::npos) << text;
}

/// An exchange that remembers what a test tells it to.
class Remembering : public GradientExchange {
 public:
  explicit Remembering(NamedTensors state) : state_(std::move(state)) {}
  void begin(std::size_t, Tensor&) override {}
  void finish(std::size_t, Tensor&) override {}
  void abandon() noexcept override {}
  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "remembering"; }
  NamedTensors state() override { return state_; }

 private:
  NamedTensors state_;
};

using Rows = std::vector<std::vector<float>>;

/// Rank r has an error of r + 1 and r + 2, and q = 7 + r. Returns what each rank has after it was given `saved`, or its
/// own where that is null; and what was gathered before.
std::pair<Rows, NamedTensors> pass_through(int ranks, const NamedTensors* saved) {
  Rows found(static_cast<std::size_t>(ranks));
  NamedTensors gathered;
  test::run_ranks(ranks, [&](comm::ProcessGroup& group) {
    const auto r = static_cast<float>(group.rank());
    Tensor error = Tensor::from<float>({2}, {r + 1, r + 2});
    Tensor q = Tensor::from<float>({1, 1}, {7 + r});
    Remembering exchange({{"0.error", error}, {"0.q", q}});
    const NamedTensors own = gather_exchange_state(group, &exchange);
    if (group.rank() == 0) gathered = own;
    error.fill(-1);
    q.fill(-1);
    scatter_exchange_state(group, saved != nullptr && group.rank() == 0 ? *saved : own, exchange);
    found[static_cast<std::size_t>(group.rank())] = {error.data<float>()[0], error.data<float>()[1],
                                                     q.data<float>()[0]};
  });
  return {found, gathered};
}

TEST(ExchangeState, FitsAnyNumberOfRanks) {
  const auto [two, saved] = pass_through(2, nullptr);
  EXPECT_EQ(two, (Rows{{1, 2, 7}, {2, 3, 8}}));
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(pass_through(2, &saved).first, two);
  // The sums are 3 and 5.
  EXPECT_EQ(pass_through(4, &saved).first, Rows(4, {0.75F, 1.25F, 7}));
  EXPECT_EQ(pass_through(1, &saved).first, (Rows{{3, 5, 7}}));
}

TEST(ExchangeState, WhatDoesNotFitIsNamed) {
  NamedTensors saved = pass_through(2, nullptr).second;
  saved[0].second = Tensor::zeros({2, 5});
  for (const int ranks : {2, 3}) {
    const std::string text = error_of([&] { pass_through(ranks, &saved); });
    EXPECT_NE(text.find("exchange.safetensors"), std::string::npos) << text;
    EXPECT_NE(text.find("0.error"), std::string::npos) << text;
  }
}

// Real digits, a small part of them: enough steps for what was left out to arrive.
TEST(RealDigits, CompressedTrainingIsNearlyAsGood) {
  const auto data = test::test_data();
  if (!data || !std::filesystem::is_directory(*data / "mnist")) GTEST_SKIP() << "no MNIST in the test data";
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data");
  for (const auto& [split, count] : {std::pair(Split::Train, 3000), {Split::Test, 1000}}) {
    write_mnist_split(folder / "data", split, load_mnist(*data / "mnist", split), count);
  }
  TrainOptions options;
  options.data = folder / "data";
  options.model = "lenet5";
  options.epochs = 3;
  options.batch_size = 8;
  options.learning_rate = 2e-3;
  const double plain = *train_on(2, options).report.final_test_accuracy;
  EXPECT_GT(plain, 0.9);
  options.comm_hook = "topk";
  EXPECT_GT(*train_on(2, options).report.final_test_accuracy, plain - 0.03);
}

}  // namespace
}  // namespace tutti::trainer
