// The example programs, run as tools/examples/README.md says, on several ranks; their numbers are checked.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tutti_program.h"

namespace tutti::test {
namespace {

using std::chrono::seconds;

std::string example(const std::string& name) { return std::string(TUTTI_EXAMPLES) + "/" + name; }

/// tutti run -n RANKS --no-label [launcher options] -- EXAMPLE [options]
std::vector<std::string> command(int ranks, const std::string& name, const std::vector<std::string>& options = {},
                                 const std::vector<std::string>& launcher = {}) {
  std::vector<std::string> words{TUTTI_PROGRAM, "run", "-n", std::to_string(ranks), "--no-label"};
  words.insert(words.end(), launcher.begin(), launcher.end());
  words.insert(words.end(), {"--", example(name)});
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// What the ranks printed, in alphabetical order; the run must succeed.
std::vector<std::string> lines_of(int ranks, const std::string& name, const std::vector<std::string>& options = {}) {
  const Finished run = run_program(command(ranks, name, options));
  EXPECT_EQ(run.status, exited(0)) << name << ": " << run.err;
  return sorted_lines(run.out);
}

bool has_line(const std::vector<std::string>& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
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
  const auto lines = lines_of(4, "point_to_point");
  EXPECT_EQ(lines.size(), 7u) << joined(lines);
  EXPECT_TRUE(has_line(lines, "rank 0: sending 42 to rank 1"));
  EXPECT_TRUE(has_line(lines, "rank 1: received 42 from rank 0"));
  EXPECT_TRUE(has_line(lines, "rank 0: 3 messages from anybody, sum 14"));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string left = std::to_string((rank + 3) % 4);
    const std::string line =
        "rank " + std::to_string(rank) + ": received 100000 numbers " + left + " from rank " + left;
    EXPECT_NE(joined(lines).find(line), std::string::npos) << line;
  }
  const Finished alone = run_program({example("point_to_point")});
  EXPECT_EQ(alone.status, exited(1));
  EXPECT_EQ(alone.err, "rank 0: messages need two ranks: tutti run -n 2 point_to_point\n");
}

TEST(Examples, Reduce) {
  EXPECT_EQ(lines_of(4, "reduce"),
            (std::vector<std::string>{"rank 0: sending 0", "rank 0: sum of all messages is 6", "rank 1: sending 1",
                                      "rank 2: sending 2", "rank 3: sending 3"}));
}

TEST(Examples, Collectives) {
  const auto lines = lines_of(3, "collectives");
  EXPECT_EQ(lines.size(), 3 * 8 + 3u) << joined(lines);
  for (const char* line :
       {"rank 2: broadcast: 7 7", "rank 2: scatter: 20", "rank 0: gather: 0 1 2", "rank 0: reduce: 3",
        "rank 1: all_reduce sum, prod, min, max: 6 6 1 3", "rank 1: all_reduce avg: 2", "rank 2: all_gather: 1 4 9",
        "rank 1: reduce_scatter: 3", "rank 2: all_to_all: 12 22 32", "rank 0: all_reduce_async: 3 after own work 7.485",
        "rank 0: all 3 ranks have passed the barrier"}) {
    EXPECT_TRUE(has_line(lines, line)) << line << "\n" << joined(lines);
  }
}

TEST(Examples, DemoBasicDoesOnFourRanksWhatOneDoesWithAllSamples) {
  const std::string four = joined(lines_of(4, "demo_basic"));
  const std::string one = joined(lines_of(1, "demo_basic", {"--samples", "80"}));
  const std::string result = "all ranks: (loss 1\\.[0-9]{4}, length of the gradient 0\\.[0-9]{4})";
  EXPECT_EQ(found(four, result), found(one, result));
  EXPECT_NE(four.find("165 parameters, whose gradients travel in 1 message(s)"), std::string::npos) << four;
  EXPECT_NE(four.find("rank 3: loss "), std::string::npos) << four;
  EXPECT_NE(four.find("the same on all 4 ranks"), std::string::npos) << four;
  // The mean of what the ranks saw of their own.
  double sum = 0;
  for (int rank = 0; rank < 4; ++rank) {
    sum += std::stod(found(four, "rank " + std::to_string(rank) + ": loss ([0-9.]+)"));
  }
  EXPECT_NEAR(sum / 4, std::stod(found(four, "all ranks: loss ([0-9.]+)")), 2e-4);
}

TEST(Examples, DemoBasicFindsUnusedParameters) {
  const auto lines = lines_of(2, "demo_basic", {"--spare", "1"});
  for (const char* name : {"spare.weight", "spare.bias"}) {
    EXPECT_TRUE(has_line(lines, std::string(name) + " has no gradient on any rank and stays as it was"))
        << joined(lines);
  }
}

TEST(Examples, DemoCheckpointGivesAllRanksTheSavedModelAndCleansUp) {
  const std::string text = joined(lines_of(4, "demo_checkpoint"));
  const std::string loaded = found(text, "rank 0: loaded 4 tensors, sha256 ([0-9a-f]{16})");
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(found(text, "rank " + std::to_string(rank) + ": loaded 4 tensors, sha256 ([0-9a-f]{16})"), loaded);
  }
  EXPECT_NE(found(text, "rank 0: trained a step, sha256 ([0-9a-f]{16}), the same on all ranks"), loaded);
  EXPECT_FALSE(std::filesystem::exists(found(text, "rank 0: saved (.*)")));
}

// 2 replicas x 2 devices; a cut model has the bits of an uncut one.
TEST(Examples, DemoModelParallel) {
  const auto run = [](const char* devices) {
    return joined(lines_of(2, "demo_model_parallel", {"--devices", devices, "--batch", "2", "--image-size", "32"}));
  };
  const std::string two = run("2");
  EXPECT_NE(two.find("rank 0: features[:4] on cpu, the rest on cpu:1, output (2, 5) on cpu:1"), std::string::npos);
  EXPECT_NE(two.find("rank 1: features[:4] on cpu:2, the rest on cpu:3, output (2, 5) on cpu:3"), std::string::npos);
  const std::string result = "all ranks: 4013953 parameters after one step, sha256 ([0-9a-f]{64})";
  EXPECT_EQ(found(two, result), found(run("1"), result));

  const Finished wrong = run_program(command(1, "demo_model_parallel", {"--devices", "3"}));
  EXPECT_EQ(wrong.status, exited(1));
  EXPECT_NE(wrong.err.find("--devices is 3, this model can use 1 or 2"), std::string::npos) << wrong.err;
}

TEST(Examples, ToyModelParallelSeesEachSampleOnceForAnyNumberOfRanks) {
  const auto run = [](int ranks, const char* batch, const char* devices) {
    return joined(
        lines_of(ranks, "toy_model_parallel", {"--samples", "4096", "--batch-size", batch, "--group-size", devices}));
  };
  const std::string four = run(4, "64", "2");
  for (int rank = 0; rank < 4; ++rank) {
    const std::string head = rank == 0 ? "cpu" : "cpu:" + std::to_string(2 * rank);
    const std::string line =
        "rank " + std::to_string(rank) + ": head on " + head + ", tail on cpu:" + std::to_string(2 * rank + 1) + "\n";
    EXPECT_NE(four.find(line), std::string::npos) << line << four;
  }
  EXPECT_NE(four.find("16 steps of 64 samples a rank"), std::string::npos) << four;
  const auto loss = [](const std::string& text) { return std::stod(found(text, "mean loss ([0-9.e+]+)")); };
  EXPECT_NEAR(loss(run(1, "256", "2")) / loss(four), 1, 1e-4);
  const std::string hash = "sha256 ([0-9a-f]{64})";
  EXPECT_EQ(found(run(4, "64", "1"), hash), found(four, hash));  // one device each: the same bits
}

TEST(Examples, AGpuThatCannotBeUsedIsNamed) {
  const Finished run = run_program(command(2, "toy_model_parallel", {"--cuda", "1"}));
  EXPECT_EQ(run.status, exited(1));
  EXPECT_NE(run.err.find("rank 1: a tensor was asked for on cuda:2"), std::string::npos) << run.err;
}

TEST(Examples, PipelineHasOneRanksLossesForAnyCut) {
  const auto losses = [](int ranks, const std::vector<std::string>& options) {
    std::vector<std::string> words{"--steps", "30"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<double> values;
    const std::string text = joined(lines_of(ranks, "pipeline", words));
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
  ProcessesOptions options;
  options.command = {example("pipeline"), "--steps", "1000000000"};
  options.count = 3;
  Processes ranks(options);
  ASSERT_TRUE(ranks.wait_for_output(2, "step 10:"));
  ranks.kill(1, SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks.wait(rank), exited(1));
    EXPECT_NE(ranks.err(rank).find("lost rank 1"), std::string::npos) << ranks.err(rank);
  }
}

TEST(Examples, RanksMeetInAFileWithoutLauncherAndPort) {
  const Finished run = run_program({TUTTI_SOURCE "/tools/examples/meet_in_a_file.sh", example("reduce"), "3"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_TRUE(has_line(sorted_lines(run.out), "rank 0: sum of all messages is 3")) << run.out;

  const Finished failing = run_program({TUTTI_SOURCE "/tools/examples/meet_in_a_file.sh", "false", "2"});
  EXPECT_EQ(failing.status, exited(1));
}

// The course programs, row 24 (tools/examples/README.md).
TEST(Examples, TuttiLogTellsWhoJoinedWhatAndHowItWent) {
  const Finished run = run_program(command(2, "pipeline", {"--steps", "1"}), {"TUTTI_LOG=info"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  for (const char* part :
       {"rank 0/2 (RANK, WORLD_SIZE,", "joined group 'world', listening on ", ", transport ",
        "joined group 'world/split1/0' as rank 1/2, transport ", "latest operations, oldest first: split seq 1 by "}) {
    EXPECT_NE(run.err.find(part), std::string::npos) << part << "\n" << run.err;
  }
  EXPECT_EQ(run_program(command(2, "pipeline", {"--steps", "1"}), {"TUTTI_LOG="}).err, "");
  const std::string unknown = run_program(command(2, "pipeline", {"--steps", "1"}), {"TUTTI_LOG=loud"}).err;
  EXPECT_NE(unknown.find("TUTTI_LOG=loud is none of error, warn, info and debug"), std::string::npos) << unknown;
}

TEST(Examples, WrongUsageIsStatus2WithTheOptions) {
  const Finished unknown = run_program({example("pipeline"), "--stages", "2"});
  EXPECT_EQ(unknown.status, exited(2));
  EXPECT_NE(unknown.err.find("unknown option --stages\nusage: tutti run -n RANKS "), std::string::npos) << unknown.err;
  const Finished no_number = run_program({example("pipeline"), "--steps", "many"});
  EXPECT_EQ(no_number.status, exited(2));
  EXPECT_NE(no_number.err.find("--steps needs a number, got 'many'"), std::string::npos) << no_number.err;
  const Finished help = run_program({example("pipeline"), "--help"});
  EXPECT_EQ(help.status, exited(0));
  EXPECT_NE(help.out.find("--replicas N        pipelines side by side (default 1)"), std::string::npos) << help.out;
}

TEST(Examples, EachProgramStandsInTheReadme) {
  std::ifstream file(TUTTI_SOURCE "/tools/examples/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_EXAMPLES)) {
    ++programs;
    const std::string name = entry.path().filename();
    EXPECT_NE(readme.find("examples/" + name), std::string::npos) << name;
  }
  EXPECT_GE(programs, 8);
}

}  // namespace
}  // namespace tutti::test
