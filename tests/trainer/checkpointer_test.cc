// Checkpoints of whole runs, ranks as threads: what is written when, and that a run which goes on ends as if it had
// never ended.
#include <gtest/gtest.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/checkpoint/checkpoint_folder.h>
#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/task.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

using Prepare = std::function<void(int rank, TrainOptions& options, TrainRequests& requests)>;

class CheckpointerTest : public SmallTraining {
 protected:
  CheckpointerTest() : SmallTraining(480, 50, 2, 16) {  // x 2 ranks: 15 steps
    options_.checkpoint_dir = folder_ / "checkpoints";
    options_.resume = true;
  }
  static Trained train_on(int ranks, const TrainOptions& options, const Prepare& prepare = {}) {
    return trainer::train_on(ranks, options, {.prepare = prepare, .keep_errors = true});
  }
  RunReport uninterrupted(int ranks) const {
    TrainOptions plain = options_;
    plain.checkpoint_dir.clear();
    plain.resume = false;
    return train_on(ranks, plain).reports[0];
  }
  /// A run that left all checkpoints from step `every` on in `name`.
  void train_keeping_all(const std::string& name, std::int64_t every) {
    TrainOptions options = options_;
    options.checkpoint_dir = folder_ / name;
    options.checkpoint_every = every;
    options.keep_checkpoints = 0;
    train_on(2, options);
  }
  /// Goes on from the checkpoint `name` of `origin`, alone in a folder of its own.
  Trained resume_from(const std::string& origin, const std::string& name, int ranks, std::int64_t global_batch = 32) {
    TrainOptions options = options_;
    options.checkpoint_dir = folder_ / ("from-" + name + "-on-" + std::to_string(ranks));
    options.batch_size = global_batch / ranks;
    fs::create_directories(options.checkpoint_dir);
    fs::copy(folder_ / origin / name, options.checkpoint_dir / name);
    return train_on(ranks, options);
  }
  void expect_equal(const RunReport& run, const RunReport& whole) const {
    EXPECT_EQ(run.parameter_sha256, whole.parameter_sha256);
    EXPECT_EQ(run.confusion_matrix, whole.confusion_matrix);
    ASSERT_EQ(run.epochs.size(), whole.epochs.size());
    for (std::size_t e = 0; e < whole.epochs.size(); ++e) {
      EXPECT_EQ(run.epochs[e].train_loss, whole.epochs[e].train_loss) << e;
      EXPECT_EQ(run.epochs[e].test_loss, whole.epochs[e].test_loss) << e;
    }
  }
};

TEST_F(CheckpointerTest, ARunResumedAtAnyStepEqualsTheUninterruptedOneBitForBit) {
  const RunReport whole = uninterrupted(2);
  train_keeping_all("all", 1);
  EXPECT_EQ(checkpoints_in(folder_ / "all").size(), 30u);  // 14 within each epoch, and its end
  for (const auto& [name, text] : {std::pair("epoch-0000-step-000001", "after epoch 0 and step 1 of 15 from "),
                                   {"epoch-0000-step-000014", "after epoch 0 and step 14 of 15 from "},
                                   {"epoch-0001", "after epoch 1 from "},
                                   {"epoch-0001-step-000007", "after epoch 1 and step 7 of 15 from "},
                                   {"epoch-0002", "after epoch 2 from "}}) {  // nothing is left to do
    const Trained resumed = resume_from("all", name, 2);
    test::expect_parts(resumed.printed, {text});
    expect_equal(resumed.reports[0], whole);
    expect_equal(resumed.reports[1], whole);
  }
}

// Everything that is random or remembers: augmentation, dropout, stochastic depth, batch norm's statistics, momentum, a
// schedule.
TEST_F(CheckpointerTest, ARunWithAllThatIsRandomContinuesWithinAnEpoch) {
  options_ = small_mercer(folder_ / "scenes", "efficientnet_b0");
  options_.batch_size = 16;
  options_.augment = true;
  options_.optimizer = "sgd";
  options_.momentum = 0.9;
  options_.schedule = "cosine";
  options_.clip_norm = 0.5;
  options_.resume = true;
  const RunReport whole = uninterrupted(2);
  train_keeping_all("all", 1);
  expect_equal(resume_from("all", "epoch-0000-step-000001", 2).reports[0], whole);
}

TEST_F(CheckpointerTest, AnotherNumberOfRanksGoesOnAtTheSameSamplesBitForBit) {
  options_.batch_size = 24;
  const RunReport whole = uninterrupted(2);
  train_keeping_all("all", 3);
  for (const int ranks : {1, 3, 4}) {
    SCOPED_TRACE(ranks);
    const Trained resumed = resume_from("all", "epoch-0001-step-000002", ranks, 48);
    test::expect_parts(resumed.printed, {"that run had 2 ranks, this one has " + std::to_string(ranks) +
                                         ", the global batch is the same"});
    const RunReport& run = resumed.reports[0];
    EXPECT_EQ(run.parameter_sha256, whole.parameter_sha256);
    ASSERT_EQ(run.epochs.size(), 2u);
    for (std::size_t e = 0; e < 2; ++e) EXPECT_EQ(run.epochs[e].train_loss, whole.epochs[e].train_loss) << e;
    EXPECT_NEAR(*run.epochs[1].test_loss / *whole.epochs[1].test_loss, 1, 1e-4);
  }
}

TEST_F(CheckpointerTest, AShardedOptimizerIsSavedWholeAndResumedWithOrWithoutSharding) {
  const RunReport whole = uninterrupted(2);
  options_.shard_optimizer = true;
  train_keeping_all("sharded", 4);
  for (const bool sharded : {true, false}) {
    options_.shard_optimizer = sharded;
    const Trained resumed = resume_from("sharded", "epoch-0000-step-000008", 2);
    EXPECT_EQ(resumed.errors[1], "");
    expect_equal(resumed.reports[0], whole);
    fs::remove_all(folder_ / "from-epoch-0000-step-000008-on-2");
  }
  options_.shard_optimizer = false;
  train_keeping_all("plain", 4);
  options_.shard_optimizer = true;
  expect_equal(resume_from("plain", "epoch-0001-step-000001", 2).reports[0], whole);
  for (const int ranks : {1, 4}) {
    const RunReport other = resume_from("plain", "epoch-0001-step-000001", ranks).reports[0];
    EXPECT_NEAR(other.epochs[1].train_loss / whole.epochs[1].train_loss, 1, 1e-5) << ranks;
  }
}

TEST_F(CheckpointerTest, EachHookContinuesOnAsManyRanksBitForBit) {
  for (const std::string hook : {"bf16", "fp16", "topk"}) {
    SCOPED_TRACE(hook);
    options_.comm_hook = hook;
    const RunReport whole = uninterrupted(2);
    train_keeping_all(hook, 15);
    expect_equal(resume_from(hook, "epoch-0001", 2).reports[0], whole);
    for (const int ranks : {1, 4}) {
      const Trained other = resume_from(hook, "epoch-0001", ranks);
      ASSERT_EQ(other.reports[0].epochs.size(), 2u);
      EXPECT_LT(other.reports[0].epochs[1].train_loss, whole.epochs[0].train_loss);
      const bool told = other.printed.find("is that of 2 ranks: its sum is dealt out evenly") != std::string::npos;
      EXPECT_EQ(told, hook == "topk" && ranks > 1) << other.printed;
    }
    for (const int ranks : {1, 2, 4}) fs::remove_all(folder_ / ("from-epoch-0001-on-" + std::to_string(ranks)));
  }
}

TEST_F(CheckpointerTest, EveryCountsTheStepsOfTheWholeRun) {
  train_keeping_all("all", 10);
  const fs::path dir = folder_ / "all";
  EXPECT_EQ(checkpoints_in(dir), (std::vector<fs::path>{dir / "epoch-0002", dir / "epoch-0001-step-000005",
                                                        dir / "epoch-0001", dir / "epoch-0000-step-000010"}));
}

TEST_F(CheckpointerTest, TheNewestStay) {
  options_.checkpoint_every = 1;
  train_on(2, options_);
  const fs::path dir = options_.checkpoint_dir;
  EXPECT_EQ(checkpoints_in(dir), (std::vector<fs::path>{dir / "epoch-0002", dir / "epoch-0001-step-000014",
                                                        dir / "epoch-0001-step-000013"}));
}

TEST_F(CheckpointerTest, OneRankThatIsAskedToStopStopsAllAfterTheSameStep) {
  const RunReport whole = uninterrupted(2);
  for (const int asked : {0, 1}) {
    const Trained stopped = train_on(2, options_, [&](int rank, TrainOptions&, TrainRequests& requests) {
      if (rank == asked) requests.ask_stop();
    });
    const std::string expected = "epoch-0000-step-00000" + std::to_string(asked + 1);
    EXPECT_TRUE(stopped.reports[0].stopped);
    EXPECT_TRUE(stopped.reports[1].stopped);
    EXPECT_EQ(newest_checkpoint(options_.checkpoint_dir), options_.checkpoint_dir / expected);
    test::expect_parts(stopped.printed,
                       {"stopped as asked, in epoch 1 after step " + std::to_string(asked + 1) + " of 15; " +
                        (options_.checkpoint_dir / expected).string() + " is complete: go on"});
  }
  const Trained resumed = train_on(2, options_);
  EXPECT_FALSE(resumed.reports[0].stopped);
  expect_equal(resumed.reports[0], whole);
}

TEST_F(CheckpointerTest, AStopAfterTheLastStepOfAnEpochComesBackBeforeItsEvaluation) {
  options_.batch_size = 240;  // one step an epoch
  const RunReport whole = uninterrupted(2);
  train_on(2, options_, [](int rank, TrainOptions&, TrainRequests& requests) {
    if (rank == 0) requests.ask_stop();
  });
  EXPECT_EQ(newest_checkpoint(options_.checkpoint_dir), options_.checkpoint_dir / "epoch-0000-step-000001");
  expect_equal(train_on(2, options_).reports[1], whole);
}

TEST_F(CheckpointerTest, OneRankThatIsAskedForACheckpointGetsOneAndTrainingGoesOn) {
  const RunReport whole = uninterrupted(2);
  const Trained run = train_on(2, options_, [](int rank, TrainOptions&, TrainRequests& requests) {
    if (rank == 1) requests.ask_checkpoint();
  });
  const fs::path dir = options_.checkpoint_dir;
  EXPECT_EQ(checkpoints_in(dir),
            (std::vector<fs::path>{dir / "epoch-0002", dir / "epoch-0001", dir / "epoch-0000-step-000001"}));
  test::expect_parts(run.printed, {"epoch-0000-step-000001 is complete, as asked for"});
  expect_equal(run.reports[0], whole);
}

TEST_F(CheckpointerTest, WithoutAFolderNobodyListens) {
  options_.checkpoint_dir.clear();
  options_.resume = false;
  const Trained run = train_on(2, options_, [](int, TrainOptions&, TrainRequests& requests) { requests.ask_stop(); });
  EXPECT_FALSE(run.reports[0].stopped);
  EXPECT_EQ(run.reports[0].epochs.size(), 2u);
}

TEST_F(CheckpointerTest, AFailedWriteReachesEveryRankWithPathAndReason) {
  fs::create_directories(options_.checkpoint_dir);
  for (const char* name : {"epoch-0000-step-000004", "epoch-0001", "epoch-0002"}) {
    replace_file(options_.checkpoint_dir / name, "in the way");
    options_.checkpoint_every = name[9] == '0' ? 2 : 0;
    const Trained run = train_on(2, options_);
    const std::string where = (options_.checkpoint_dir / name).string();
    test::expect_parts(run.errors[0], {"cannot write the checkpoint " + where + ": Not a directory"});
    const std::string newest = std::string(name) == "epoch-0002" ? "epoch-0001" : "epoch-0000-step-000002";
    test::expect_parts(run.errors[0],
                       {"the newest complete checkpoint is " + (options_.checkpoint_dir / newest).string()});
    EXPECT_EQ(run.errors[0], run.errors[1]);
    fs::remove(options_.checkpoint_dir / name);
  }
}

class DamagedRun : public CheckpointerTest {
 protected:
  DamagedRun() {
    options_.checkpoint_every = 10;
    train_on(2, options_);
    fs::remove_all(options_.checkpoint_dir / "epoch-0002");  // as if killed before
    newest_ = options_.checkpoint_dir / "epoch-0001-step-000005";
  }
  void flip_last_byte(const fs::path& file) {
    std::string bytes = read_whole_file(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    replace_file(file, bytes);
  }
  fs::path newest_;
};

TEST_F(DamagedRun, TheCheckpointBeforeIsUsedLoudlyAndTheEndIsTheSame) {
  const RunReport whole = uninterrupted(2);
  using Damage = std::function<void()>;
  const std::pair<std::string, Damage> damages[] = {
      {"model.safetensors is damaged: its sha256 is ", [&] { flip_last_byte(newest_ / "model.safetensors"); }},
      {"optimizer.safetensors is damaged: it is 10 bytes long",
       [&] { replace_file(newest_ / "optimizer.safetensors", "0123456789"); }},
      {"its file state.json is missing", [&] { fs::remove(newest_ / "state.json"); }},
      {"state.json is damaged: it is not a JSON object", [&] { replace_file(newest_ / "state.json", ""); }},
  };
  for (const auto& [expected, damage] : damages) {
    damage();
    const Trained resumed = train_on(2, options_);
    test::expect_parts(resumed.printed, {"WARNING: the checkpoint", expected,
                                         "set aside as epoch-0001-step-000005.damaged", "resumed after epoch 1 from "});
    expect_equal(resumed.reports[0], whole);
    EXPECT_TRUE(fs::exists(newest_ / "state.json"));  // written again
    fs::remove_all(options_.checkpoint_dir / "epoch-0002");
    fs::remove_all(newest_.string() + ".damaged");
  }
}

TEST_F(DamagedRun, WhenAllAreDamagedTheRunSaysSoAndTouchesNothing) {
  const auto all = checkpoints_in(options_.checkpoint_dir);
  for (const fs::path& folder : all) flip_last_byte(folder / "model.safetensors");
  const Trained resumed = train_on(2, options_);
  test::expect_parts(
      resumed.errors[0],
      {"cannot resume: no checkpoint in " + options_.checkpoint_dir.string() + " is whole", "its sha256 is "});
  EXPECT_EQ(resumed.errors[0], resumed.errors[1]);
  EXPECT_EQ(checkpoints_in(options_.checkpoint_dir), all);
}

TEST_F(DamagedRun, OtherOptionsAndDataAreNoDamage) {
  TrainOptions other = options_;
  other.learning_rate = 0.5;
  other.batch_size = 32;
  const std::string told = train_on(2, other).errors[1];
  test::expect_parts(told, {"global batch was 32, now 64; lr was 0.001, now 0.5"});
  EXPECT_TRUE(fs::exists(newest_));
  for (const auto& [split, name] : {std::pair(Split::Train, "data"), {Split::Test, "test data"}}) {
    write_small_mnist(folder_ / "data", 480, 50);
    const std::int64_t count = split == Split::Train ? 480 : 50;
    ImageDataset digits = generate_digits(split, 0, count);
    std::int64_t& label = digits.labels.data<std::int64_t>()[3];
    label = label == 0 ? 1 : 0;
    write_mnist_split(folder_ / "data", split, digits, count);
    const Trained resumed = train_on(2, options_);
    test::expect_parts(resumed.errors[1], {std::string(name) + " was mnist "});
    EXPECT_TRUE(fs::exists(newest_));
  }
}

TEST_F(CheckpointerTest, TwoRunsShareNeitherFolder) {
  options_.run_dir = folder_ / "run";
  options_.checkpoint_dir = folder_ / "own";
  for (const fs::path& folder : {options_.run_dir, options_.checkpoint_dir}) {
    const FolderLock other(folder);
    const std::string error = train_on(1, options_).errors[0];
    test::expect_parts(error, {"the folder " + folder.string() + " is in use by another run (process "});
  }
}

TEST(SumOfRank, IsItsOwnOrContinuedAsOne) {
  const std::vector<LossSum> saved{
      {.loss = 1, .samples = 10}, {.loss = 2, .samples = 20}, {.loss = 4, .samples = 40}, {.loss = 8, .samples = 80}};
  EXPECT_EQ(sum_of_rank(saved, 1, 4).loss, 2);
  EXPECT_EQ(sum_of_rank(saved, 0, 3).samples, 150);
  EXPECT_EQ(sum_of_rank(saved, 2, 3).samples, 0);
}

}  // namespace
}  // namespace tutti::trainer
