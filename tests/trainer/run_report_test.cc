#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/metrics/confusion_matrix.h>
#include <tutti/trainer/report/progress.h>
#include <tutti/trainer/report/run_report.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;

RunReport example() {
  RunReport report;
  report.task = "mnist";
  report.model = "mlp";
  report.device = "cpu";
  report.world_size = 2;
  report.batch_size = 64;
  report.global_batch = 128;
  EpochReport epoch;
  epoch.epoch = 1;
  epoch.train_loss = 0.5;
  epoch.test_loss = 0.25;
  epoch.test_accuracy = 0.75;
  epoch.seconds = 2;
  report.epochs = {epoch};
  report.final_test_accuracy = 0.75;
  report.confusion_matrix = {{3, 1}, {0, 4}};
  report.parameter_sha256 = "ab";
  return report;
}

TEST(RunReport, KeysAreThePromisedOnesInOrder) {
  const auto json = nlohmann::ordered_json::parse(to_json(example()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"task", "model", "device", "world_size", "threads", "batch_size", "global_batch",
                                      "generated_data", "epochs", "seconds_training", "samples_per_second",
                                      "final_test_accuracy", "confusion_matrix", "parameter_sha256"}));
  keys.clear();
  for (const auto& [key, value] : json["epochs"][0].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"epoch", "train_loss", "test_loss", "test_accuracy", "seconds"}));
  EXPECT_EQ(json["confusion_matrix"][0][1], 1);
  EXPECT_EQ(json["generated_data"], false);
}

TEST(RunReport, WhatDoesNotApplyIsNull) {
  RunReport report = example();
  report.has_classes = false;
  report.final_test_accuracy.reset();
  report.confusion_matrix.clear();
  report.epochs[0].test_accuracy.reset();
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_TRUE(json["final_test_accuracy"].is_null());
  EXPECT_TRUE(json["confusion_matrix"].is_null());
  EXPECT_TRUE(json["epochs"][0]["test_accuracy"].is_null());
  EXPECT_EQ(json["test_loss"], 0.25);
}

TEST(RunReport, EpochsComeBackBitForBit) {
  auto epochs = example().epochs;
  epochs[0].train_loss = 0.1 + 0.2;
  epochs.push_back(epochs[0]);
  epochs[1].test_accuracy.reset();
  epochs[1].train_loss = std::numeric_limits<double>::quiet_NaN();
  const auto back = epochs_from_json(epochs_to_json(epochs));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].train_loss, 0.1 + 0.2);
  EXPECT_EQ(back[0].test_accuracy, 0.75);
  EXPECT_FALSE(back[1].test_accuracy.has_value());
  EXPECT_TRUE(std::isnan(back[1].train_loss));
  EXPECT_THROW(epochs_from_json("{"), std::runtime_error);
  EXPECT_THROW(epochs_from_json("[1]"), std::runtime_error);
}

TEST(Progress, OnePlainLinePerEpochInAPipe) {
  std::ostringstream out;
  Progress progress(out, nullptr, 0, 5, "  [generated digits]");
  progress.start_epoch(1, 1000, 128);
  for (int i = 0; i < 1000; ++i) progress.step(i, 0.5);
  progress.end_epoch(example().epochs[0]);
  EXPECT_EQ(out.str(),
            "epoch 1/5  train loss 0.5000  test loss 0.2500  test accuracy 0.7500  2.00 s  [generated digits]\n");
}

TEST(Progress, AStepIsShownFiveTimesASecondWithTheTimeLeft) {
  testing::internal::CaptureStdout();
  Progress progress(std::cout, stdout, 80, 3, "  [generated digits]");
  const Progress::Clock::time_point began{};
  progress.start_epoch(2, 1000, 128, began);
  for (int i = 0; i < 100; ++i) progress.show(i, 0.5, began + std::chrono::milliseconds(10) * (i + 1));
  progress.end_epoch(example().epochs[0]);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 10) << "two for each of five lines, for a launcher";
  EXPECT_TRUE(text.starts_with(
      "epoch 2/3  step 20/1000  loss 0.5000  20 s left  12,800 samples/s  [generated digits]\r\repoch 2/3  step 40/"))
      << text;
  test::expect_parts(text, {"\r\repoch 1/3  train"});
}

TEST(Progress, AnEvaluationHasALiveLineAndNothingElse) {
  testing::internal::CaptureStdout();
  Progress progress(std::cout, stdout, 80, 1, "");
  for (int i = 1; i <= 4; ++i) progress.evaluated(i, 4, Progress::Clock::now() + std::chrono::seconds(i));
  EXPECT_EQ(testing::internal::GetCapturedStdout().substr(0, 44), "evaluating  batch 1/4\r\revaluating  batch 2/4");
  std::ostringstream pipe;
  Progress(pipe, nullptr, 0, 1, "").evaluated(1, 4, Progress::Clock::now());
  EXPECT_EQ(pipe.str(), "");
}

TEST(Progress, StepsAreLoggedAsOftenAsAsked) {
  std::ostringstream out;
  Progress progress(out, nullptr, 0, 1, "", 40);
  const Progress::Clock::time_point began{};
  progress.start_epoch(1, 100, 10, began);
  for (int i = 0; i < 100; ++i) progress.show(i, 0.25, began + std::chrono::seconds(i + 1));
  EXPECT_EQ(out.str(),
            "epoch 1/1  step 40/100  loss 0.2500  10 samples/s\nepoch 1/1  step 80/100  loss 0.2500  10 samples/s\n");
}

TEST(Progress, OtherRanksPutTheirStepsIntoTheLogAndNothingElse) {
  const TemporaryFolder folder;
  RunLog log(folder.path(), 2);
  Progress progress(log, 1, "", 2);
  progress.line("nothing");
  progress.start_epoch(1, 3, 10);
  for (int i = 0; i < 3; ++i) progress.step(i, 0.25);
  progress.end_epoch({});
  const std::string text = read_whole_file(folder / "log.txt");
  EXPECT_NE(text.find(" rank 2: epoch 1/1  step 2/3  loss 0.2500  "), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(Progress, OtherRanksAreSilent) {
  testing::internal::CaptureStdout();
  Progress progress;
  progress.start_epoch(1, 10, 128);
  progress.step(0, 1);
  progress.end_epoch({});
  progress.line("nothing");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(ConfusionMatrix, CountsActualByPredicted) {
  ConfusionMatrix matrix(3);
  matrix.add(0, 0);
  matrix.add(0, 2);
  matrix.add(2, 2);
  EXPECT_EQ(matrix.count(0, 2), 1);
  EXPECT_EQ(matrix.count(2, 0), 0);
  EXPECT_EQ(matrix.total(), 3);
  EXPECT_EQ(matrix.correct(), 2);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 2.0 / 3.0);
  EXPECT_EQ(matrix.rows(), (std::vector<std::vector<std::int64_t>>{{1, 0, 1}, {0, 0, 0}, {0, 0, 1}}));
}

TEST(ConfusionMatrix, EmptyHasNoAccuracyButNoCrash) {
  EXPECT_EQ(ConfusionMatrix(2).accuracy(), 0.0);
  test::expect_parts(ConfusionMatrix(2).to_table(), {"0.0 %"});
}

TEST(ConfusionMatrix, BatchTakesTheFirstLargestScore) {
  ConfusionMatrix matrix(2);
  matrix.add_batch(Tensor::from<float>(Shape{3, 2}, {1, 1, 0, 1, 5, -5}),
                   Tensor::from<std::int64_t>(Shape{3}, {0, 0, 1}));
  EXPECT_EQ(matrix.rows(), (std::vector<std::vector<std::int64_t>>{{1, 1}, {1, 0}}));
  matrix.add_batch(Tensor::from<double>(Shape{1, 2}, {0, 1}), Tensor::from<std::int64_t>(Shape{1}, {1}));
  EXPECT_EQ(matrix.count(1, 1), 1);
}

TEST(ConfusionMatrix, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ConfusionMatrix(0), std::invalid_argument);
  ConfusionMatrix matrix(2);
  EXPECT_THROW(matrix.add(0, 2), std::out_of_range);
  EXPECT_THROW(matrix.add(-1, 0), std::out_of_range);
  const Tensor scores = Tensor::zeros(Shape{2, 2});
  EXPECT_THROW(matrix.add_batch(Tensor::zeros(Shape{2, 3}), Tensor::from<std::int64_t>(Shape{2}, {0, 0})),
               std::invalid_argument);
  EXPECT_THROW(matrix.add_batch(scores, Tensor::from<std::int64_t>(Shape{1}, {0})), std::invalid_argument);
  EXPECT_THROW(matrix.add_batch(scores, Tensor::from<std::int64_t>(Shape{2}, {0, 2})), std::out_of_range);
  EXPECT_EQ(matrix.total(), 0);
}

TEST(ConfusionMatrix, TableHasARowPerClass) {
  ConfusionMatrix matrix(2);
  for (int i = 0; i < 12; ++i) matrix.add(1, 1);
  matrix.add(0, 1);
  EXPECT_EQ(matrix.to_table(),
            "actual \\ predicted\n"
            "           0   1    right\n"
            "       0   0   1    0.0 %\n"
            "       1   0  12  100.0 %\n");
  EXPECT_EQ(matrix.to_table({"sea", "beach"}),
            "actual \\ predicted\n"
            "                 0   1    right\n"
            "       0 sea     0   1    0.0 %\n"
            "       1 beach   0  12  100.0 %\n");
  EXPECT_EQ(matrix.to_table({"sea", "beach"}, 30),
            "  actual          right  taken for\n"
            "       0 sea      0.0 %  1 (1 time)\n"
            "       1 beach  100.0 %\n");
  EXPECT_EQ(matrix.to_table({"sea", "beach"}, 40), matrix.to_table({"sea", "beach"}));
}

}  // namespace
}  // namespace tutti::trainer
