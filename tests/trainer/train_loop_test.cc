#include <gtest/gtest.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/option_table.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kTest = 101;  // a prime: no number of ranks divides it

class TrainLoop : public SmallTraining {
 protected:
  TrainLoop() : SmallTraining(480, kTest, 3, 16) {}
};

TEST_F(TrainLoop, NothingDependsOnTheNumberOfRanksWhereSamplesGoRound) {
  TrainOptions options = options_;
  options.batch_size = 48;
  const RunReport one = train_on(1, options).reports[0];
  ASSERT_EQ(one.epochs.size(), 3u);
  EXPECT_LT(one.epochs[2].train_loss, one.epochs[0].train_loss);
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    options.batch_size = 48 / ranks;
    for (const RunReport& report : train_on(ranks, options).reports) {
      EXPECT_EQ(report.parameter_sha256, one.parameter_sha256);
      EXPECT_EQ(report.global_batch, 48);
      for (std::size_t e = 0; e < 3; ++e) {
        EXPECT_EQ(report.epochs[e].train_loss, one.epochs[e].train_loss);
        EXPECT_NEAR(*report.epochs[e].test_loss / *one.epochs[e].test_loss, 1.0, 1e-4);
      }
      EXPECT_EQ(report.confusion_matrix, one.confusion_matrix);
    }
  }
  std::int64_t tested = 0;
  for (const auto& row : one.confusion_matrix) tested = std::accumulate(row.begin(), row.end(), tested);
  EXPECT_EQ(tested, kTest);
  options.batch_size = 48;
  options.reproducible = false;
  EXPECT_NE(train_on(1, options).reports[0].parameter_sha256, one.parameter_sha256) << "faster sums are others";
}

TEST_F(TrainLoop, ResumedRunContinuesScheduleAndClippingBitForBit) {
  options_.checkpoint_dir = folder_ / "checkpoints";
  options_.optimizer = "sgd";
  options_.momentum = 0.9;
  options_.nesterov = true;
  options_.learning_rate = 0.1;
  options_.clip_norm = 0.5;
  options_.resume = true;
  for (const std::string schedule : {"step", "cosine", "one-cycle"}) {
    options_.schedule = schedule;
    options_.warm_up_epochs = schedule == "one-cycle" ? 0 : 1;
    const RunReport whole = train_on(2, options_).reports[0];
    for (const char* epoch : {"epoch-0002", "epoch-0003"}) {  // as if the run had been killed in its second epoch
      ASSERT_GT(std::filesystem::remove_all(options_.checkpoint_dir / epoch), 0u);
    }
    EXPECT_EQ(train_on(2, options_).reports[0].parameter_sha256, whole.parameter_sha256) << schedule;

    TrainOptions longer = options_;
    longer.epochs = 4;
    const std::string text = error_of([&] { train_on(2, longer); });
    test::expect_parts(text,
                       {schedule == "step" ? "schedule-every was 1, now 2" : "epochs of the schedule was 3, now 4"});
    std::filesystem::remove_all(options_.checkpoint_dir);
  }
}

TEST_F(TrainLoop, EveryOptimizerLearns) {
  for (const char* optimizer : {"adam", "adamw", "sgd", "adadelta"}) {
    options_.optimizer = optimizer;
    const RunReport report = train_on(1, options_).reports[0];
    EXPECT_LT(report.epochs[2].train_loss, report.epochs[0].train_loss) << optimizer;
  }
}

TEST_F(TrainLoop, LabelSmoothingIsForTrainingOnly) {
  options_.epochs = 1;
  options_.learning_rate = 1e-6;  // both runs stay where they begin
  const RunReport plain = train_on(2, options_).reports[0];
  options_.label_smoothing = 0.5;
  const RunReport smooth = train_on(2, options_).reports[0];
  EXPECT_NEAR(*smooth.epochs[0].test_loss / *plain.epochs[0].test_loss, 1, 1e-3);
  EXPECT_GT(std::abs(smooth.epochs[0].train_loss / plain.epochs[0].train_loss - 1), 1e-3);
}

/// What each rank of a run ends with, of which the last one was started otherwise.
std::vector<std::string> ends_of(int ranks, const TrainOptions& usual, const TrainOptions& odd) {
  const auto prepare = [&](int rank, TrainOptions& options, TrainRequests&) {
    if (rank == ranks - 1) options = odd;
  };
  return train_on(ranks, usual, {.prepare = prepare, .keep_errors = true}).errors;
}

/// To another value of an option.
void change(std::string& value) { value += "-other"; }
void change(std::filesystem::path& value) { value = "/nowhere"; }
void change(bool& value) { value = !value; }
void change(std::optional<bool>& value) { value = false; }
void change(std::optional<double>& value) { value = 0.5; }
template <typename Number>
void change(Number& value) {
  value += Number{1};
}

TEST_F(TrainLoop, WhatARankWasToldOtherwiseIsNamed) {
  for (const TrainOption& option : option_table()) {
    if (option.is(option_traits::kOwn) || option.name == "task") continue;  // another task finds other data
    const std::string name = (option.help != nullptr ? "--" : "") + std::string(option.name);
    SCOPED_TRACE(name);
    TrainOptions odd = options_;
    with_value(option, odd, [](auto& value) { change(value); });
    for (const std::string& text : ends_of(name == "--seed" ? 3 : 2, options_, odd)) {
      test::expect_parts(text, {"the ranks were started with different options or data: " + name + " is ",
                                name == "--seed" ? "0 on ranks 0, 1, 1 on rank 2" : " on rank 1"});
    }
  }
}

TEST_F(TrainLoop, OtherDataOnOneRankIsNamed) {
  const auto rewrite = [&](const std::string& file, std::size_t at) {
    std::fstream stream(folder_ / "other" / file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const int old = stream.get();
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(old == 0 ? 1 : 0));
  };
  for (const auto& [set, file, at] : {std::tuple("training data", "train-labels-idx1-ubyte", 8 + 100),
                                      {"training data", "train-images-idx3-ubyte", 16 + 784},
                                      {"test data", "t10k-labels-idx1-ubyte", 8}}) {
    SCOPED_TRACE(file);
    std::filesystem::remove_all(folder_ / "other");
    std::filesystem::copy(folder_ / "data", folder_ / "other", std::filesystem::copy_options::recursive);
    rewrite(file, static_cast<std::size_t>(at));
    TrainOptions odd = options_;
    odd.data = folder_ / "other";
    const std::vector<std::string> texts = ends_of(2, options_, odd);
    EXPECT_EQ(texts[0], texts[1]);
    test::expect_parts(texts[0], {std::string("options or data: ") + set + " is mnist "});
  }
}

TEST_F(TrainLoop, ReportNamesWhatWasPrinted) {
  const Trained result = train_on(2, options_);
  test::expect_parts(result.printed,
                     {"training mlp (39,760 parameters)", "2 ranks x batch 16 = 32", "epoch 3/3  train loss",
                      "actual \\ predicted", "final test accuracy", "the same on all 2 ranks"});
}

}  // namespace
}  // namespace tutti::trainer
