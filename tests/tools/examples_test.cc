// The example programs, run as tools/examples/README.md says, on several ranks; their numbers are checked.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

std::string example(const std::string& name) { return std::string(TUTTI_EXAMPLES) + "/" + name; }

/// tutti run -n RANKS --no-label -- EXAMPLE [options]
Finished run_example(int ranks, const std::string& name, const Words& options = {}, const Words& environment = {}) {
  const Words launcher{"run", "-n", std::to_string(ranks), "--no-label", "--", example(name)};
  return tutti(joined(launcher, options), environment);
}

/// What the ranks printed, in alphabetical order, a line break before each line; the run must succeed.
std::string printed_by(int ranks, const std::string& name, const Words& options = {}) {
  const Finished run = run_example(ranks, name, options);
  expect_success(run);
  std::string text = "\n";
  for (const std::string& line : sorted_lines(run.out)) text += line + "\n";
  return text;
}

/// The first group of the first match; the test fails without one.
std::string found(const std::string& text, const std::string& pattern) {
  std::smatch match;
  if (std::regex_search(text, match, std::regex(pattern))) return match[1];
  ADD_FAILURE() << "no \"" << pattern << "\" in:\n" << text;
  return "";
}

TEST(Examples, PointToPoint) {
  const std::string text = printed_by(4, "point_to_point");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 7) << text;
  expect_parts(text, {"\nrank 0: sending 42 to rank 1\n", "\nrank 1: received 42 from rank 0\n",
                      "\nrank 0: 3 messages from anybody, sum 14\n", "rank 0: received 100000 numbers 3 from rank 3",
                      "rank 1: received 100000 numbers 0 from rank 0", "rank 2: received 100000 numbers 1 from rank 1",
                      "rank 3: received 100000 numbers 2 from rank 2"});
  const Finished alone = run_program({example("point_to_point")});
  EXPECT_EQ(alone.status, exited(1));
  EXPECT_EQ(alone.err, "rank 0: messages need two ranks: tutti run -n 2 point_to_point\n");
}

TEST(Examples, Collectives) {
  const std::string text = printed_by(3, "collectives");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 3 * 8 + 3) << text;
  for (const char* line :
       {"rank 2: broadcast: 7 7", "rank 2: scatter: 20", "rank 0: gather: 0 1 2", "rank 0: reduce: 3",
        "rank 1: all_reduce sum, prod, min, max: 6 6 1 3", "rank 1: all_reduce avg: 2", "rank 2: all_gather: 1 4 9",
        "rank 1: reduce_scatter: 3", "rank 2: all_to_all: 12 22 32", "rank 0: all_reduce_async: 3 after own work 7.485",
        "rank 0: all 3 ranks have passed the barrier"}) {
    expect_parts(text, {"\n" + std::string(line) + "\n"});
  }
}

TEST(Examples, DemoBasicDoesOnFourRanksWhatOneDoesWithAllSamples) {
  const std::string four = printed_by(4, "demo_basic");
  const std::string one = printed_by(1, "demo_basic", {"--samples", "80"});
  const std::string result = "all ranks: (loss 1\\.[0-9]{4}, length of the gradient 0\\.[0-9]{4})";
  EXPECT_EQ(found(four, result), found(one, result));
  expect_parts(four,
               {"165 parameters, whose gradients travel in 1 message(s)", "rank 3: loss ", "the same on all 4 ranks"});
  // The mean of what the ranks saw of their own.
  double sum = 0;
  for (int rank = 0; rank < 4; ++rank) {
    sum += std::stod(found(four, "rank " + std::to_string(rank) + ": loss ([0-9.]+)"));
  }
  EXPECT_NEAR(sum / 4, std::stod(found(four, "all ranks: loss ([0-9.]+)")), 2e-4);
}

TEST(Examples, DemoBasicFindsUnusedParameters) {
  expect_parts(printed_by(2, "demo_basic", {"--spare", "1"}),
               {"\nspare.weight has no gradient on any rank and stays as it was\n",
                "\nspare.bias has no gradient on any rank and stays as it was\n"});
}

// The loop by hand and the built-in one are the same training.
TEST(Examples, OwnLoopDoesWhatTheBuiltInTrainerDoes) {
  const TestFolder empty;
  const std::string home = empty.path();
  const Words nothing_there = {"TUTTI_DATA=", "HOME=" + home, "XDG_CACHE_HOME=" + home};
  const Finished own = run_example(2, "own_loop", {"--epochs", "1", "--batch-size", "32"}, nothing_there);
  expect_success(own, {"[generated digits test]"});
  const Finished built_in = tutti({"train", "mnist", "--epochs", "1"}, nothing_there);
  expect_success(built_in);
  const std::string accuracy = "test accuracy (0\\.[0-9]{4})";
  EXPECT_NEAR(std::stod(found(own.out, accuracy)), std::stod(found(built_in.out, accuracy)), 0.005);  // sums round
}

TEST(Examples, DemoBasicGivesAllRanksTheSavedModelAndCleansUp) {
  const std::string text = printed_by(4, "demo_basic", {"--save", "1"});
  const std::string loaded = found(text, "rank 0: loaded 4 tensors, sha256 ([0-9a-f]{16})");
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(found(text, "rank " + std::to_string(rank) + ": loaded 4 tensors, sha256 ([0-9a-f]{16})"), loaded);
  }
  EXPECT_NE(found(text, "parameters sha256 ([0-9a-f]{16})[0-9a-f]{48}, the same on all 4 ranks"), loaded);
  EXPECT_FALSE(std::filesystem::exists(found(text, "rank 0: saved (.*)")));
}

// 2 replicas x 2 devices; a cut model has the bits of an uncut one.
TEST(Examples, ModelParallel) {
  const auto run = [](const char* devices) {
    return printed_by(2, "model_parallel", {"--devices", devices, "--batch", "2", "--image-size", "32"});
  };
  const std::string two = run("2");
  expect_parts(two, {"rank 0: features[:4] on cpu, the rest on cpu:1, output (2, 5) on cpu:1",
                     "rank 1: features[:4] on cpu:2, the rest on cpu:3, output (2, 5) on cpu:3"});
  const std::string result = "all ranks: 4013953 parameters after one step, sha256 ([0-9a-f]{64})";
  EXPECT_EQ(found(two, result), found(run("1"), result));

  expect_failure(run_example(1, "model_parallel", {"--devices", "3"}), 1,
                 {"--devices is 3, this model can use 1 or 2"});
}

TEST(Examples, ModelParallelToySeesEachSampleOnceForAnyNumberOfRanks) {
  const auto run = [](int ranks, const char* batch, const char* devices) {
    return printed_by(ranks, "model_parallel",
                      {"--toy", "1", "--samples", "4096", "--batch", batch, "--devices", devices});
  };
  const std::string four = run(4, "64", "2");
  expect_parts(four, {"rank 0: head on cpu, tail on cpu:1\n", "rank 1: head on cpu:2, tail on cpu:3\n",
                      "rank 2: head on cpu:4, tail on cpu:5\n", "rank 3: head on cpu:6, tail on cpu:7\n",
                      "16 steps of 64 samples a rank"});
  const auto loss = [](const std::string& text) { return std::stod(found(text, "mean loss ([0-9.e+]+)")); };
  EXPECT_NEAR(loss(run(1, "256", "2")) / loss(four), 1, 1e-4);
  const std::string hash = "sha256 ([0-9a-f]{64})";
  EXPECT_EQ(found(run(4, "64", "1"), hash), found(four, hash));  // one device each: the same bits
}

TEST(Examples, AGpuThatCannotBeUsedIsNamed) {
  expect_failure(run_example(2, "model_parallel", {"--toy", "1", "--cuda", "1"}), 1,
                 {"rank 1: a tensor was asked for on cuda:2"});
}

TEST(Examples, PipelineHasOneRanksLossesForAnyCut) {
  const auto losses = [](int ranks, const Words& options) {
    std::vector<double> values;
    const std::string text = printed_by(ranks, "pipeline", joined({"--steps", "30"}, options));
    for (const char* step : {"10", "20", "30"}) {
      values.push_back(std::stod(found(text, "step " + std::string(step) + ": loss ([0-9.]+)")));
    }
    return values;
  };
  const auto one = losses(1, {});
  EXPECT_LT(one[2], 0.6 * one[0]);  // it learns
  for (const auto& other : {losses(2, {}), losses(4, {"--micro-batches", "5"}), losses(4, {"--gpipe", "1"}),
                            losses(4, {"--replicas", "2"})}) {
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 2e-3) << i;
  }
}

TEST(Examples, AStageThatIsKilledIsNamedByTheOthers) {
  Processes ranks({.command = {example("pipeline"), "--steps", "1000000000"}, .count = 3});
  ASSERT_TRUE(ranks.wait_for_output(2, "step 10:"));
  ranks.kill(1, SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks.wait(rank), exited(1));
    expect_parts(ranks.err(rank), {"lost rank 1"});
  }
}

TEST(Examples, RanksMeetInAFileWithoutLauncherAndPort) {
  const char script[] = TUTTI_SOURCE "/tools/examples/meet_in_a_file.sh";
  const Finished run = run_program({script, example("collectives"), "3"});
  expect_success(run);
  expect_parts("\n" + run.out, {"\nrank 0: reduce: 3\n"});
  EXPECT_EQ(run_program({script, "false", "2"}).status, exited(1));
}

// The course programs, row 24 (tools/examples/README.md).
TEST(Examples, TuttiLogTellsWhoJoinedWhatAndHowItWent) {
  const Finished run = run_example(2, "pipeline", {"--steps", "1"}, {"TUTTI_LOG=info"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  expect_parts(run.err, {"rank 0/2 (RANK, WORLD_SIZE,", "joined group 'world', listening on ", ", transport ",
                         "joined group 'world/split1/0' as rank 1/2, transport ",
                         "latest operations, oldest first: split seq 1 by "});
  EXPECT_EQ(run_example(2, "pipeline", {"--steps", "1"}, {"TUTTI_LOG="}).err, "");
  const std::string unknown = run_example(2, "pipeline", {"--steps", "1"}, {"TUTTI_LOG=loud"}).err;
  expect_parts(unknown, {"TUTTI_LOG=loud is none of error, warn, info and debug"});
}

TEST(Examples, WrongUsageIsStatus2WithTheOptions) {
  const Finished unknown = run_program({example("pipeline"), "--stages", "2"});
  expect_failure(unknown, 2, {"--stages"});
  expect_failure(run_program({example("pipeline"), "--steps", "many"}), 2, {"--steps", "many"});
  expect_success(run_program({example("pipeline"), "--help"}),
                 {"tutti run -n RANKS ", "--replicas INT=1            pipelines side by side"});
}

TEST(Examples, EachProgramStandsInTheReadme) {
  std::ifstream file(TUTTI_SOURCE "/tools/examples/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_EXAMPLES)) {
    ++programs;
    expect_parts(readme, {"examples/" + entry.path().filename().string()});
  }
  EXPECT_GE(programs, 5);
}

}  // namespace
}  // namespace tutti::test
