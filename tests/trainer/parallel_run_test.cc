// Whole runs with comm hooks and sharding.
#include <gtest/gtest.h>
#include <tutti/tests/support/test_data.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data/mnist.h>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

class ParallelRun : public SmallTraining {
 protected:
  ParallelRun() : SmallTraining(480, 101, 2, 16) {
    options_.buckets = {.first_bucket_bytes = 4096, .bucket_cap_bytes = 1 << 16};
  }
};

TEST_F(ParallelRun, ShardingGoesWithSchedulesAndClipping) {
  options_.optimizer = "sgd";
  options_.learning_rate = 0.1;
  options_.momentum = 0.9;
  options_.schedule = "cosine";
  options_.warm_up_epochs = 1;
  options_.clip_norm = 0.5;
  const RunReport plain = train_on(2, options_).reports[0];
  options_.shard_optimizer = true;
  const Trained trained = train_on(2, options_);
  test::expect_parts(trained.printed, {"0.08 MiB on this rank, 0.15 MiB without --shard-optimizer"});
  const RunReport& sharded = trained.reports[0];
  for (std::size_t e = 0; e < 2; ++e) {
    EXPECT_NEAR(sharded.epochs[e].train_loss / plain.epochs[e].train_loss, 1, 1e-6);
  }
}

TEST_F(ParallelRun, EachHookTrains) {
  const RunReport plain = train_on(2, options_).reports[0];
  for (const std::string hook : {"bf16", "fp16", "topk"}) {
    options_.comm_hook = hook;
    if (hook == "topk") options_.topk_density = 0.1;
    const Trained whole = train_on(2, options_);
    test::expect_parts(whole.printed, {"gradients travel by " + hook + (hook == "topk" ? ", --topk-density 0.1" : "")});
    EXPECT_NE(whole.reports[0].parameter_sha256, plain.parameter_sha256) << hook;
    EXPECT_NEAR(whole.reports[0].epochs[1].train_loss / plain.epochs[1].train_loss, 1, 0.25) << hook;
    options_.topk_density.reset();
  }
}

TEST_F(ParallelRun, ModelsWithoutBatchNormHaveNothingToSynchronise) {
  options_.sync_batch_norm = true;
  const std::string text = error_of([&] { train_on(2, options_); });
  test::expect_parts(text, {"--sync-batch-norm: mlp has no batch norm; leave the option out"});
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
    test::expect_parts(text, {"exchange.safetensors", "0.error"});
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
  const double plain = *train_on(2, options).reports[0].final_test_accuracy;
  EXPECT_GT(plain, 0.9);
  options.comm_hook = "topk";
  EXPECT_GT(*train_on(2, options).reports[0].final_test_accuracy, plain - 0.03);
}

}  // namespace
}  // namespace tutti::trainer
