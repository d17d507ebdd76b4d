#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/step_records.h>
#include <tutti/trainer/report/step_times.h>

#include <cmath>
#include <limits>

namespace tutti::trainer {
namespace {

StepInfo step_at(std::int64_t global_step) {
  return {.epoch = static_cast<int>(global_step / 10) + 1,
          .step = global_step % 10,
          .steps_per_epoch = 10,
          .global_step = global_step,
          .loss = 0.1 + 0.2 * static_cast<double>(global_step),
          .learning_rate = 1e-3,
          .samples = 64,
          .seconds = 1.25e-4,
          .wait_seconds = 1e-6};
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<std::int64_t> steps;
  for (const StepRecord& record : read_steps(file).records) steps.push_back(record.global_step);
  return steps;
}

void write_steps(const std::filesystem::path& file, std::int64_t begin, std::int64_t end) {
  StepsWriter writer(file, begin);
  for (std::int64_t step = begin; step < end; ++step) writer.add(step_at(step));
}

TEST(StepRecords, LineIsThePromisedOne) {
  char line[kMaxStepLine];
  const std::string text(line, write_step_line(step_at(12), line));
  EXPECT_EQ(text, R"({"epoch":2,"step":2,"global_step":12,"loss":2.5000000000000004,"learning_rate":0.001,)"
                  R"("samples":64,"seconds":0.000125,"wait_seconds":1e-06})"
                  "\n");
}

TEST(StepRecords, LongestLineFits) {
  StepInfo info{.epoch = std::numeric_limits<int>::min()};
  info.step = info.global_step = info.samples = std::numeric_limits<std::int64_t>::min();
  info.loss = info.learning_rate = info.seconds = info.wait_seconds = -2.2250738585072014e-308;
  char line[kMaxStepLine];
  EXPECT_LE(write_step_line(info, line), kMaxStepLine - 200);
}

TEST(StepRecords, NumbersComeBackBitForBit) {
  const TemporaryFolder folder;
  StepInfo info = step_at(3);
  {
    StepsWriter writer(folder / "steps.jsonl", 0);
    info.loss = std::nextafter(0.3, 1);
    writer.add(info);
    info.loss = std::numeric_limits<double>::infinity();
    writer.add(info);
  }
  const auto records = read_steps(folder / "steps.jsonl").records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].loss, std::nextafter(0.3, 1));
  EXPECT_EQ(records[0].seconds, 1.25e-4);
  EXPECT_EQ(records[0].samples, 64);
  EXPECT_TRUE(std::isnan(records[1].loss));
}

TEST(StepRecords, ResumedRunRepeatsNoStep) {
  const TemporaryFolder folder;
  const auto file = folder / "steps.jsonl";
  write_steps(file, 0, 17);
  write_steps(file, 10, 12);  // from the checkpoint after step 9
  EXPECT_EQ(steps_in(file), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  write_steps(file, 0, 2);
  EXPECT_EQ(steps_in(file), (std::vector<std::int64_t>{0, 1}));
}

TEST(StepRecords, HalfLastLineIsPassedOverAndReplaced) {
  const TemporaryFolder folder;
  const auto file = folder / "steps.jsonl";
  write_steps(file, 0, 3);
  const std::string whole = read_whole_file(file);
  for (std::size_t cut = 1; cut < 40; cut += 7) {
    replace_file(file, whole.substr(0, whole.size() - cut));
    const StepsRead read = read_steps(file);
    EXPECT_EQ(read.bad_lines, 0u);
    // Only the newline is missing: the record is whole, but the writer cannot know that.
    EXPECT_EQ(read.records.size(), cut == 1 ? 3u : 2u);
    write_steps(file, 5, 6);
    EXPECT_EQ(steps_in(file), (std::vector<std::int64_t>{0, 1, 5}));
  }
}

TEST(StepRecords, DamagedLinesAreCountedAndKept) {
  const TemporaryFolder folder;
  const auto file = folder / "steps.jsonl";
  write_steps(file, 0, 2);
  const std::string good = read_whole_file(file);
  replace_file(file, good + "\x80\x81 no JSON\n{\"global_step\":2}\n[]\n" + good);
  const StepsRead read = read_steps(file);
  EXPECT_EQ(read.bad_lines, 3u);
  EXPECT_EQ(read.records.size(), 4u);
}

TEST(StepRecords, ASecondOfStepsIsInTheFile) {
  const TemporaryFolder folder;
  const auto file = folder / "steps.jsonl";
  StepsWriter writer(file, 0);
  StepInfo info = step_at(0);
  info.seconds = 0.4;
  for (info.global_step = 0; info.global_step < 2; ++info.global_step) writer.add(info);
  EXPECT_EQ(steps_in(file).size(), 0u);
  writer.add(info);
  EXPECT_EQ(steps_in(file).size(), 3u);  // while the writer is open
}

TEST(StepRecords, RanksHaveFilesOfTheirOwn) {
  const TemporaryFolder folder;
  EXPECT_TRUE(ranks_with_steps(folder.path()).empty());
  EXPECT_TRUE(ranks_with_steps(folder / "nowhere").empty());
  for (const int rank : {10, 0, 2}) write_steps(steps_file(folder.path(), rank), 0, 1);
  for (const char* other : {"steps-rank-.jsonl", "steps-rank-1x.jsonl", "steps-rank-0.jsonl", "steps-rank-1.txt"}) {
    replace_file(folder / other, "");
  }
  EXPECT_EQ(ranks_with_steps(folder.path()), (std::vector<int>{0, 2, 10}));
}

TEST(StepRecords, FullDiskIsNamed) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "steps.jsonl");
  std::string text = error_of([&] {
    StepsWriter writer(folder / "steps.jsonl", 0);
    writer.add(step_at(0));
    writer.flush();
  });
  // /dev/full cannot be cut to a length either: either way the file is named.
  test::expect_parts(text, {"cannot write " + (folder / "steps.jsonl").string()});
}

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
  EXPECT_NEAR(times.ranks[0].seconds - times.ranks[0].wait_seconds, 1.0, 1e-9);
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

TEST(StepTimes, AHiccupMakesNoStragglerButManyDo) {
  auto hiccup = rank_with(1, 200, 1.0, 0.1);
  hiccup.records[100].seconds = 500;
  auto stutter = rank_with(2, 200, 1.0, 0.1);
  for (std::size_t i = 0; i < 200; i += 10) stutter.records[i].seconds = 6.1;
  const StepTimes times = step_times({rank_with(0, 200, 1.0, 0.1), hiccup, stutter});
  EXPECT_FALSE(times.ranks[0].is_straggler);
  EXPECT_FALSE(times.ranks[1].is_straggler);
  EXPECT_TRUE(times.ranks[2].is_straggler);
  EXPECT_DOUBLE_EQ(times.ranks[2].own_median, 1.0);
  ASSERT_EQ(times.slow_steps.size(), 5u);
  EXPECT_EQ(times.slow_steps[0].rank, 1);
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
