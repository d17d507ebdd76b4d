// Elastic training, workers as threads: ranks are lost at every point of a run, replaced, dropped and added, and the
// result stays what it was.
#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>
#include <tutti/tests/trainer/elastic_job.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/report/step_records.h>
#include <tutti/trainer/task.h>
#include <tutti/trainer/update_rule.h>

#include <algorithm>

namespace tutti::trainer {
namespace {

using Where = Fault::Where;

class Elastic : public SmallTraining {
 protected:
  Elastic() : SmallTraining(288, 50, 2, 16) {  // x 3 ranks: 6 steps an epoch
    options_.timeout = std::chrono::seconds(40);
  }

  /// Generation 0 of `ranks`, of which `slot` meets the fault; returns its workers.
  static std::vector<std::string> start(ElasticJob& job, int ranks, int slot = 0, const Fault& fault = {}) {
    const std::vector<std::string> workers = first_workers(ranks);
    job.publish(workers);
    for (int s = 0; s < ranks; ++s) job.start(workers[static_cast<std::size_t>(s)], s == slot ? fault : Fault{});
    return workers;
  }

  RunReport undisturbed(int ranks) const {
    ElasticJob job(options_);
    start(job, ranks);
    job.join();
    EXPECT_TRUE(job.of("0.0.0").report) << job.of("0.0.0").error;
    return job.of("0.0.0").report.value_or(RunReport{});
  }

  /// Another worker takes the place of the one in `slot`, when `others` have left; returns when the job has ended.
  static void replace(ElasticJob& job, std::vector<std::string>& workers, int slot, std::size_t others) {
    job.wait_for_leavers(0, others);
    std::string& worker = workers[static_cast<std::size_t>(slot)];
    worker = comm::WorkerId{.slot = slot, .incarnation = 1}.text();
    job.publish(workers);
    job.start(worker);
    job.join();
  }

  static std::vector<std::string> first_workers(int count) {
    std::vector<std::string> workers;
    for (int slot = 0; slot < count; ++slot) workers.push_back(comm::WorkerId{.slot = slot}.text());
    return workers;
  }

  /// The global steps that rank `rank` has recorded, in order.
  std::vector<std::int64_t> recorded(int rank) const {
    std::vector<std::int64_t> steps;
    for (const StepRecord& record : read_steps(steps_file(options_.run_dir, rank)).records) {
      steps.push_back(record.global_step);
    }
    return steps;
  }

  test::Watchdog watchdog_{std::chrono::seconds(120)};
};

struct LostAt {
  const char* name;
  int slot;
  Fault fault;
};

class LosesARank : public Elastic, public testing::WithParamInterface<LostAt> {};

// A lost rank is replaced; the others go on with the step that was cut off, and the result has the same bits.
TEST_P(LosesARank, AndEndsWithTheBitsOfAnUndisturbedRun) {
  options_.checkpoint_dir = folder_ / "undisturbed";
  const RunReport whole = undisturbed(3);
  options_.checkpoint_dir = folder_ / "checkpoints";
  options_.run_dir = folder_ / "run";

  const auto [name, slot, fault] = GetParam();
  ElasticJob job(options_);
  std::vector<std::string> workers = start(job, 3, slot, fault);
  const std::string lost = workers[static_cast<std::size_t>(slot)];
  replace(job, workers, slot, 2);

  EXPECT_TRUE(job.of(lost).killed);
  for (const std::string& worker : workers) {
    ASSERT_TRUE(job.of(worker).report) << worker << ": " << job.of(worker).error;
    EXPECT_EQ(job.of(worker).report->parameter_sha256, whole.parameter_sha256) << worker;
    EXPECT_EQ(job.of(worker).report->confusion_matrix, whole.confusion_matrix) << worker;
    EXPECT_EQ(job.of(worker).report->epochs.size(), 2U);
  }
  // No survivor repeats a step, and none misses more than the one that it was behind.
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == slot) continue;
    const auto steps = recorded(rank);
    EXPECT_GE(steps.size(), 11U);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_EQ(std::adjacent_find(steps.begin(), steps.end()), steps.end());
  }
}

INSTANTIATE_TEST_SUITE_P(At, LosesARank,
                         testing::Values(LostAt{"TheFirstStep", 1, {Where::Forward, 1}},
                                         LostAt{"Forward", 2, {Where::Forward, 4}},
                                         LostAt{"ForwardAsRank0", 0, {Where::Forward, 4}},
                                         LostAt{"ForwardInTheSecondEpoch", 0, {Where::Forward, 9}},
                                         LostAt{"TheUpdate", 1, {Where::Update, 5}},
                                         LostAt{"TheLastUpdate", 1, {Where::Update, 12}},
                                         LostAt{"Evaluation", 1, {Where::Evaluation, 1}},
                                         LostAt{"TheLastEvaluationAsRank0", 0, {Where::Evaluation, 2}},
                                         LostAt{"ACheckpoint", 0, {Where::Checkpoint, 1}}),
                         [](const testing::TestParamInfo<LostAt>& test) { return test.param.name; });

TEST_F(Elastic, AnUndisturbedRunIsAnOrdinaryOne) {
  const RunReport ordinary = train_on(2, options_).reports[0];
  const RunReport elastic = undisturbed(2);
  EXPECT_EQ(elastic.epochs.back().train_loss, ordinary.epochs.back().train_loss);
  EXPECT_EQ(elastic.confusion_matrix, ordinary.confusion_matrix);
  EXPECT_EQ(elastic.global_batch, 32);
}

struct Shrinks {
  int ranks;
  int lost;
  Fault fault;
  const char* told;  // by rank 0 of those that are left
};

class TheWorldShrinks : public Elastic {
 protected:
  TheWorldShrinks() { options_.reproducible = true; }

  void expect_same_bits(const Shrinks& test) {
    SCOPED_TRACE(std::to_string(test.ranks) + " ranks");
    const RunReport whole = undisturbed(test.ranks);
    ElasticJob job(options_);
    std::vector<std::string> workers = start(job, test.ranks, test.lost, test.fault);
    job.wait_for_leavers(0, workers.size() - 1);
    workers.erase(workers.begin() + test.lost);
    job.publish(workers);
    job.join();
    const ElasticJob::Outcome& first = job.of(workers[0]);
    ASSERT_TRUE(first.report) << first.error;
    EXPECT_EQ(first.report->parameter_sha256, whole.parameter_sha256);
    EXPECT_EQ(first.report->world_size, test.ranks - 1);
    EXPECT_EQ(first.report->global_batch, 16 * test.ranks);
    test::expect_parts(first.printed, {std::string("generation ") + test.told});
  }
};

// The global batch stays, so fewer ranks compute the same; with --reproducible bit for bit.
TEST_F(TheWorldShrinks, InMidEpoch) {
  expect_same_bits({3, 0, {Where::Forward, 6}, "1: 2 ranks, epoch 1, step 5 of 6; state of rank 0"});
  expect_same_bits({2, 1, {Where::Update, 3}, "1: 1 ranks, epoch 1, step "});
}

// Batch norm is over the ranks that are left, then.
TEST_F(TheWorldShrinks, WithBatchNormOfAllRanks) {
  TrainOptions pictures = small_mercer(folder_ / "pictures", "resnet18");
  pictures.epochs = 2;
  pictures.batch_size = 16;
  pictures.reproducible = true;
  pictures.timeout = options_.timeout;
  options_ = pictures;
  expect_same_bits({3, 1, {Where::Forward, 2}, "1: 2 ranks, epoch 1, step 1 of 2"});
}

// Only the first generation begins with the file.
TEST_F(Elastic, AReplacementOfRank0ReadsNoWeights) {
  options_.checkpoint_dir = folder_ / "checkpoints";
  options_.epochs = 1;
  train_on(1, options_);
  options_.weights = options_.checkpoint_dir / "epoch-0001" / "model.safetensors";
  options_.checkpoint_dir.clear();
  const RunReport whole = undisturbed(2);
  ElasticJob job(options_);
  std::vector<std::string> workers = start(job, 2, 0, {Where::Forward, 3});
  replace(job, workers, 0, 1);
  for (const std::string& worker : workers) {
    ASSERT_TRUE(job.of(worker).report) << worker << ": " << job.of(worker).error;
    EXPECT_EQ(job.of(worker).report->parameter_sha256, whole.parameter_sha256) << worker;
  }
}

// New ranks come in between two steps; nobody fails, and no step is done twice.
TEST_F(Elastic, NewRanksJoinAtAStepBoundary) {
  options_.reproducible = true;
  options_.epochs = 40;
  const RunReport whole = undisturbed(2);
  options_.run_dir = folder_ / "run";
  ElasticJob job(options_);
  job.publish(first_workers(2));
  job.start("0.0.0");
  job.start("0.1.0", {Where::Forward, 50, [&] { job.publish(first_workers(4)); }});
  job.start("0.2.0");
  job.start("0.3.0");
  const auto left = job.wait_for_leavers(0, 2);
  job.join();
  for (const auto& leaver : left) test::expect_parts(leaver.reason, {"the ranks leave this group"});
  for (const std::string& worker : first_workers(4)) {
    ASSERT_TRUE(job.of(worker).report) << worker << ": " << job.of(worker).error;
    EXPECT_EQ(job.of(worker).report->parameter_sha256, whole.parameter_sha256) << worker;
  }
  EXPECT_EQ(job.of("0.0.0").report->world_size, 4);
  const auto steps = recorded(0);
  ASSERT_EQ(steps.size(), 9U * 40U);  // 288 samples, 32 a step
  for (std::size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<std::int64_t>(i));
}

TEST_F(Elastic, NobodySurvivesAndTheLastCheckpointGoesOn) {
  options_.checkpoint_dir = folder_ / "undisturbed";
  const RunReport whole = undisturbed(2);
  options_.checkpoint_dir = folder_ / "checkpoints";
  options_.checkpoint_every = 4;
  ElasticJob job(options_);
  job.publish(first_workers(2));
  job.start("0.0.0", {Where::Forward, 12});
  job.start("0.1.0", {Where::Forward, 12});
  job.join();
  EXPECT_TRUE(job.of("0.0.0").killed);
  EXPECT_TRUE(job.of("0.1.0").killed);
  job.publish({"0.0.1", "0.1.1"});
  job.start("0.0.1");
  job.start("0.1.1");
  job.join();
  ASSERT_TRUE(job.of("0.0.1").report) << job.of("0.0.1").error;
  EXPECT_EQ(job.of("0.0.1").report->parameter_sha256, whole.parameter_sha256);
  test::expect_parts(job.of("0.0.1").printed, {"all of them new", "resumed after epoch 1"});
}

TEST_F(Elastic, OptionsWhoseStateDiesWithARankAreRefused) {
  check_elastic_options(options_);
  const auto refusal = [](TrainOptions options) { return error_of([&] { check_elastic_options(options); }); };
  TrainOptions sharded = options_;
  sharded.shard_optimizer = true;
  test::expect_parts(refusal(sharded), {"--shard-optimizer"});
  TrainOptions sparse = options_;
  sparse.comm_hook = "topk";
  test::expect_parts(refusal(sparse), {"--comm-hook topk"});
  TrainOptions half = options_;
  half.comm_hook = "bf16";
  EXPECT_EQ(refusal(half), "");
}

TrainingState made(const TrainOptions& options, float fill) {
  TrainingState state;
  const TaskData data = generated_task_data(options);
  state.model = make_task_model(options, data.train);
  state.optimizer = make_update_rule(options, *state.model, 10);
  for (auto& [name, tensor] : model_tensors(*state.model)) tensor.fill(fill);
  for (auto& [name, tensor] : state.optimizer->state()) {
    if (tensor.dtype() == tensor::DType::Float32) tensor.fill(fill);
  }
  return state;
}

// Rank 0 is new, ranks 1 and 3 a step behind rank 2.
TEST(Meeting, EverybodyGetsTheStateOfTheOneThatIsFurthest) {
  test::run_ranks(4, [](comm::ProcessGroup& group) {
    const int rank = group.rank();
    TrainOptions options;
    TrainingState state = made(options, static_cast<float>(rank));
    state.epochs.resize(rank == 2 ? 1 : 0);
    if (rank > 0) state.commit({.epoch = 1, .step = rank == 2 ? 8 : 7}, {.loss = 1.0 * rank, .samples = rank}, 1.5);
    const Meeting meeting = meet(group, state);
    ASSERT_TRUE(meeting.anybody);
    EXPECT_EQ(meeting.donor, 2);
    EXPECT_EQ(meeting.fresh, std::vector<int>{0});
    EXPECT_EQ(meeting.behind, (std::vector<int>{1, 3}));
    EXPECT_EQ(state.position, (CheckpointPosition{.epoch = 1, .step = 8}));
    EXPECT_EQ(state.epochs.size(), 1U);
    for (const auto& [name, tensor] : model_tensors(*state.model)) EXPECT_EQ(tensor.data<float>()[0], 2.0F) << name;
    for (const auto& [name, tensor] : state.optimizer->state()) {
      if (tensor.dtype() != tensor::DType::Float32) continue;
      EXPECT_EQ(tensor.data<float>()[0], 2.0F) << name;
    }
    if (rank > 0) {
      EXPECT_EQ(state.sum.samples, rank);  // its own
    }
    EXPECT_EQ(meeting_text(meeting, state, 9),
              "epoch 2, step 8 of 9; state of rank 2, given to rank 0 (new), given to ranks 1, 3 (a step behind)");
  });
}

// What a step that failed has changed on the way: running statistics.
TEST(TrainingState, RollsBackToItsLastCommit) {
  TrainingState state;
  auto layer = std::make_shared<nn::BatchNorm2d>(2);
  state.model = layer;
  state.optimizer = nn::make_sgd({layer->weight()}, {});
  const auto step = [&](double value) {
    tensor::Tensor pixels = tensor::Tensor::empty({2, 2, 2, 2});
    pixels.fill(value);
    layer->forward(tensor::Variable(pixels));
  };
  const auto mean = [&] { return layer->named_buffers().at(0).second.data<float>()[0]; };
  step(1);
  state.commit({.epoch = 0, .step = 1}, {}, 0);
  const float committed = mean();
  EXPECT_GT(committed, 0);
  step(5);
  EXPECT_NE(mean(), committed);
  state.roll_back();
  EXPECT_EQ(mean(), committed);
  step(5);
  state.commit({.epoch = 0, .step = 2}, {}, 0);
  const float second = mean();
  step(9);
  state.roll_back();
  EXPECT_EQ(mean(), second);
}

TEST(TrainingState, ARankThatHasNotBegunStartsAnew) {
  TrainingState state;
  state.model = std::make_shared<nn::BatchNorm2d>(2);
  state.roll_back();
  EXPECT_EQ(state.model, nullptr);
}

TEST(Meeting, NobodyHasBegun) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {
    TrainingState state = made(TrainOptions{}, 1);
    EXPECT_FALSE(meet(group, state).anybody);
    EXPECT_FALSE(state.begun);
  });
}

}  // namespace
}  // namespace tutti::trainer
