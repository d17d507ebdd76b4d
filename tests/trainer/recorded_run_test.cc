// Whole runs with --run-dir: what they leave, read back by the report, the comparison and the evaluation.
#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/evaluate_checkpoint.h>
#include <tutti/trainer/report/compare_runs.h>
#include <tutti/trainer/report/page/report_page.h>

#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

class RecordedRun : public SmallTraining {
 protected:
  RecordedRun() : SmallTraining(480, 101, 3, 16) {}

  TrainOptions options_of(const std::string& run) const {
    TrainOptions options = options_;
    options.run_dir = folder_ / run;
    return checked(options);
  }

  static CheckpointEvaluation evaluate_on(int ranks, const EvaluationRequest& request) {
    std::optional<CheckpointEvaluation> result;
    test::run_ranks(ranks, [&](comm::ProcessGroup& group) {
      CheckpointEvaluation mine = evaluate_checkpoint(request, group);
      if (group.rank() == 0) result = std::move(mine);
    });
    return std::move(result).value();
  }
};

TEST_F(RecordedRun, GoesOnFromACheckpointWithinAnEpochWithoutAGapOrARepetition) {
  options_.epochs = 2;
  train_on(2, options_of("whole"));
  options_.checkpoint_every = 5;
  options_.keep_checkpoints = 0;
  train_on(2, options_of("killed"));
  // As if it had been killed after step 23, with the checkpoint after step 20 as its newest.
  for (const auto& folder : checkpoints_in(folder_ / "killed/checkpoints")) {
    if (folder.filename() > "epoch-0001-step-000005") std::filesystem::remove_all(folder);
  }
  for (const int rank : {0, 1}) cut_steps(steps_file(folder_ / "killed", rank), 23);
  ASSERT_EQ(find_checkpoint(folder_ / "killed").filename(), "epoch-0001-step-000005");
  EXPECT_EQ(evaluate_on(1, {.checkpoint = folder_ / "killed"}).step, 5);

  options_.resume = true;
  train_on(2, options_of("killed"));
  const RunComparison comparison = compare_runs(folder_ / "whole", folder_ / "killed", 0);
  EXPECT_TRUE(comparison.equal) << comparison.text;
  test::expect_parts(comparison.text, {"losses: equal on each rank in 30 steps", "model: all 4 tensors are equal",
                                       "option resume: (not set) in A, yes in B"});
  for (const int rank : {0, 1}) {
    const auto records = read_steps(steps_file(folder_ / "killed", rank)).records;
    ASSERT_EQ(records.size(), 30u) << rank;
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].global_step, static_cast<std::int64_t>(i));
      EXPECT_EQ(records[i].epoch, static_cast<int>(i / 15) + 1);
      EXPECT_EQ(records[i].step, static_cast<std::int64_t>(i % 15));
      EXPECT_EQ(records[i].samples, 16);
      EXPECT_GT(records[i].seconds, 0);
    }
  }
}

TEST_F(RecordedRun, RunsThatPartAreComparedToTheFirstStepAndTensor) {
  train_on(2, options_of("a"));
  options_.seed = 1;
  options_.epochs = 2;
  train_on(2, options_of("b"));
  const RunComparison comparison = compare_runs(folder_ / "a", folder_ / "b", 0);
  EXPECT_FALSE(comparison.equal);
  test::expect_parts(comparison.text,
                     {"option seed: 0 in A, 1 in B", "the first that differ are of step 0 (epoch 1, step 0) on rank 0",
                      "steps: 45 in A, 30 in B", "model: the first tensor that differs is ", "4 of 4 tensors differ"});
}

TEST_F(RecordedRun, AnotherNumberOfRanksIsEqualWithinRounding) {
  options_.batch_size = 48;
  train_on(1, options_of("one"));
  options_.batch_size = 16;
  train_on(3, options_of("three"));
  const RunComparison comparison = compare_runs(folder_ / "one", folder_ / "three", 1e-3);
  EXPECT_TRUE(comparison.equal) << comparison.text;
}

TEST_F(RecordedRun, LogPageAndEvaluationHoldWhatWasPrinted) {
  const RunReport report = train_on(2, options_of("run")).reports[0];
  const std::string log = read_whole_file(folder_ / "run/log.txt");
  test::expect_parts(log, {" rank 0: training mlp", " rank 0: epoch 3/3", " rank 0: final test accuracy"});
  RunData run = read_run(folder_ / "run");
  EXPECT_TRUE(run.remarks.empty()) << run.remarks.front();
  EXPECT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.buckets.size(), 2u);  // the large weights, and the rest
  EXPECT_EQ(run.report.confusion_matrix, report.confusion_matrix);
  const std::string html = report_page(run);
  test::expect_parts(html, {"mlp on mnist", report.parameter_sha256});

  const auto newest = find_checkpoint(folder_ / "run");
  EXPECT_EQ(find_checkpoint(folder_ / "run/checkpoints"), newest);
  EXPECT_EQ(find_checkpoint(newest), newest);
  for (const int ranks : {1, 2, 3}) {
    const auto evaluation = evaluate_on(ranks, {.checkpoint = folder_ / "run"});  // the data is where the run found it
    EXPECT_EQ(evaluation.result.confusion.rows(), report.confusion_matrix) << ranks;
    EXPECT_NEAR(evaluation.result.loss, *report.epochs.back().test_loss, 1e-6 * evaluation.result.loss) << ranks;
    if (ranks == 2) {
      EXPECT_EQ(evaluation.result.loss, *report.epochs.back().test_loss);
    }
    EXPECT_EQ(evaluation.samples, 101);
    EXPECT_EQ(evaluation.epoch, 3);
    EXPECT_EQ(evaluation.note, "");
  }

  std::filesystem::remove(folder_ / "run/report.json");  // as if killed: the epochs are in its checkpoint
  run = read_run(folder_ / "run");
  EXPECT_FALSE(run.finished);
  EXPECT_EQ(run.report.epochs.size(), 3u);
  EXPECT_EQ(run.report.model, "mlp");
}

TEST_F(RecordedRun, EvaluationsAsFiles) {
  options_.epochs = 1;
  options_.eval_train = true;
  const RunReport report = train_on(1, options_of("run")).reports[0];
  auto evaluation = evaluate_on(1, {.checkpoint = folder_ / "run"});
  const auto train = evaluate_on(2, {.checkpoint = folder_ / "run", .split = "train"});
  EXPECT_EQ(train.result.confusion.accuracy(), *report.epochs[0].train_accuracy);
  const auto all = evaluate_on(2, {.checkpoint = folder_ / "run", .split = "all"});
  EXPECT_EQ(all.samples, train.samples + evaluation.samples);
  EXPECT_EQ(all.result.confusion.correct(), train.result.confusion.correct() + evaluation.result.confusion.correct());
  EXPECT_GT(all.result.loss, std::min(train.result.loss, evaluation.result.loss));
  EXPECT_LT(all.result.loss, std::max(train.result.loss, evaluation.result.loss));
  const auto json = nlohmann::json::parse(evaluation_to_json(evaluation, 1));
  EXPECT_EQ(json["confusion_matrix"], nlohmann::json(report.confusion_matrix));
  EXPECT_EQ(json["test_accuracy"], *report.final_test_accuracy);
  EXPECT_EQ(json["samples"], 101);
  EXPECT_EQ(json["split"], "test");
  EXPECT_TRUE(json["class_names"].is_null());
  evaluation.result.confusion = ConfusionMatrix(2);
  evaluation.result.confusion.add(0, 1);
  evaluation.class_names = {"a, \"b\"", "c"};
  EXPECT_EQ(evaluation_to_csv(evaluation), "actual,\"a, \"\"b\"\"\",c\r\n\"a, \"\"b\"\"\",0,1\r\nc,0,0\r\n");
}

TEST_F(RecordedRun, ARunBeginsWithTheWeightsOfAFile) {
  options_.epochs = 1;
  const RunReport first = train_on(2, options_of("run")).reports[0];
  options_.weights = find_checkpoint(folder_ / "run") / "model.safetensors";
  options_.learning_rate = 1e-12;
  options_.seed = 5;
  const RunReport second = train_on(2, options_of("next")).reports[0];
  EXPECT_NEAR(*second.epochs[0].test_loss, *first.epochs[0].test_loss, 1e-5);
  test::expect_parts(read_whole_file(folder_ / "next/log.txt"), {"weights of " + options_.weights.string() + "\n"});
  options_.weights = folder_ / "none.safetensors";
  EXPECT_THROW(train_on(2, options_of("none")), std::runtime_error);
}

TEST_F(RecordedRun, AutoencodersAreEvaluatedByTheirLoss) {
  options_.model = "autoencoder";
  const RunReport report = train_on(2, options_of("run")).reports[1];
  const auto evaluation = evaluate_on(2, {.checkpoint = folder_ / "run"});
  EXPECT_FALSE(evaluation.has_classes);
  EXPECT_EQ(evaluation.result.loss, *report.epochs[2].test_loss);
  EXPECT_EQ(evaluation_to_csv(evaluation).rfind("test_loss\r\n0.", 0), 0u);
  EXPECT_TRUE(nlohmann::json::parse(evaluation_to_json(evaluation, 2))["test_accuracy"].is_null());
  EXPECT_FALSE(report.final_test_accuracy.has_value());
  EXPECT_TRUE(report.confusion_matrix.empty());
  EXPECT_LT(*report.epochs[2].test_loss, *report.epochs[0].test_loss);
}

TEST_F(RecordedRun, OtherDataIsSaidOrRefused) {
  options_.epochs = 1;
  train_on(1, options_of("run"));
  write_small_mnist(folder_ / "other", 320, 50);
  const auto evaluation = evaluate_on(1, {.checkpoint = folder_ / "run", .data = folder_ / "other"});
  EXPECT_EQ(evaluation.samples, 50);
  test::expect_parts(evaluation.note, {"the model was trained on mnist train (480 samples"});

  std::filesystem::remove_all(folder_ / "data");
  std::filesystem::rename(folder_ / "other", folder_ / "data");
  test::expect_parts(error_of([&] { evaluate_on(1, {.checkpoint = folder_ / "run"}); }),
                     {"name the folder of the data with --data"});
}

TEST_F(RecordedRun, WhatIsNoCheckpointIsNamed) {
  options_.epochs = 1;
  train_on(1, options_of("run"));
  test::expect_parts(error_of([&] { find_checkpoint(folder_ / "data"); }), {"there is no checkpoint in"});
  test::expect_parts(error_of([&] { find_checkpoint(folder_ / "nowhere"); }), {"nowhere is no folder"});
  const auto model = find_checkpoint(folder_ / "run") / "model.safetensors";
  std::string bytes = read_whole_file(model);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  replace_file(model, bytes);
  test::expect_parts(error_of([&] { evaluate_on(1, {.checkpoint = folder_ / "run"}); }), {"model.safetensors"});
}

}  // namespace
}  // namespace tutti::trainer
