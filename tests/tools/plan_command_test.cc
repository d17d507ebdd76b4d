// `tutti plan` and `tutti tune`.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tutti/comm/algorithms/tuning.h>

#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

Finished plan(const Words& words) { return tutti(joined({"plan"}, words)); }

/// The words of the first line that begins with `word`.
Words row(const std::string& text, const std::string& word) {
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with(word)) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(PlanCommand, ListsEveryAlgorithmWithItsPrice) {
  const Finished run = plan({"--op", "all_reduce", "--bytes", "64", "--world", "4", "--alpha", "10", "--bandwidth", "1",
                             "--gamma", "0", "--simulate"});
  expect_success(run, {"all_reduce of 64 bytes per rank, 4 ranks"});
  EXPECT_EQ(row(run.out, "ring"), (Words{"ring", "12", "6", "96", "60.10", "60.10"}));
  EXPECT_EQ(row(run.out, "recursive_doubling"), (Words{"recursive_doubling", "6", "2", "128", "20.13", "20.13"}));
  EXPECT_EQ(row(run.out, "rabenseifner"), (Words{"rabenseifner", "8", "4", "96", "40.10", "40.10"}));
  EXPECT_EQ(row(run.out, "lower bound"), (Words{"lower", "bound", "20.00"}));
}

TEST(PlanCommand, KnowsEveryOperation) {
  for (const char* op : {"all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "gather", "scatter",
                         "all_to_all", "gather_v", "scatter_v", "all_gather_v", "barrier"}) {
    const Finished run = plan({"--op", op, "--bytes", "4096", "--world", "6", "--simulate", "--ranks-per-host", "2"});
    ASSERT_EQ(run.status, exited(0)) << run.err;
    EXPECT_FALSE(contains(run.out, " -")) << "neither predicted nor simulated:\n" << run.out;
    EXPECT_FALSE(row(run.out, "lower bound").empty());
  }
  EXPECT_EQ(plan({"--op", "send", "--bytes", "1", "--world", "2"}).status, exited(2));
}

TEST(PlanCommand, HostsHaveLinksOfTheirOwn) {
  const auto with = [](const Words& more) {
    return plan(joined({"--op", "all_reduce", "--bytes", "4", "--world", "4", "--alpha", "10", "--gamma", "0",
                        "--bandwidth", "1e9", "--simulate"},
                       more));
  };
  EXPECT_TRUE(row(with({}).out, "hierarchical").empty());
  const Finished hosts = with({"--ranks-per-host", "2", "--local-alpha", "1", "--local-bandwidth", "1e9"});
  ASSERT_EQ(hosts.status, exited(0)) << hosts.err;
  EXPECT_EQ(row(hosts.out, "hierarchical").back(), "12.00") << "up, across, down";
  EXPECT_EQ(row(hosts.out, "recursive_doubling").back(), "11.00") << "two pairs cross at once";
  EXPECT_EQ(with({"--local-alpha", "1"}).status, exited(2)) << "which host?";
  EXPECT_EQ(with({"--ranks-per-host", "5"}).status, exited(2));
}

TEST(PlanCommand, ListsOnlyWhatDoesTheOperation) {
  const Finished run = plan({"--op", "all_gather", "--bytes", "64", "--world", "5"});
  EXPECT_TRUE(row(run.out, "recursive_doubling").empty()) << "is an all_reduce";
  EXPECT_FALSE(row(run.out, "bruck").empty()) << run.out;
  EXPECT_EQ(row(run.out, "ring").back(), "-") << "not simulated unless asked";
}

TEST(PlanCommand, SimulatesAWorldOf4096) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished run = plan({"--op", "all_reduce", "--bytes", "67108864", "--world", "4096", "--simulate"});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "takes less than 1 s as a rule";
  rusage children{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &children), 0);
  EXPECT_LT(children.ru_maxrss, 2L << 20) << "KiB; takes 33 MiB as a rule";
  for (const char* algorithm : {"ring", "recursive_doubling", "rabenseifner"}) {
    const auto words = row(run.out, algorithm);
    ASSERT_EQ(words.size(), 6u) << run.out;
    EXPECT_EQ(words[4], words[5]) << "estimate and simulation";
  }
}

TEST(PlanCommand, SaysWhatItSimulatedInstead) {
  const Finished run =
      plan({"--op", "all_reduce", "--bytes", "67108860", "--world", "4096", "--simulate", "--algo", "ring"});
  expect_success(run, {"ring was simulated with 67108864 bytes, which make chunks of one length."});
}

TEST(PlanCommand, DrawsTheMessages) {
  const Finished run = plan({"--op", "all_reduce", "--bytes", "12", "--world", "3", "--algo", "ring", "--draw",
                             "--alpha", "10", "--bandwidth", "1", "--gamma", "0"});
  expect_success(run, {"              0     1     2\n"
                       "      0.0 us  o----->     |   4 B\n"
                       "              |     o----->   4 B\n"
                       "              <-----------o   4 B\n"
                       "     10.0 us  o----->     |   4 B\n"});
  const Finished pairs =
      plan({"--op", "all_reduce", "--bytes", "8", "--world", "4", "--algo", "recursive_doubling", "--draw"});
  expect_parts(pairs.out, {"      0.0 us  <----->     <----->   8 B\n"});
}

TEST(PlanCommand, PrintsTheScheduleOfARank) {
  const Finished run =
      plan({"--op", "broadcast", "--bytes", "8", "--world", "3", "--root", "1", "--algo", "chain", "--rank", "2"});
  expect_success(run, {"step 0 at rank 2 (recv from rank 1 into output[0, 2))\n"
                       "  step 1 at rank 2 (send of output[0, 2) to rank 0) after 0\n"});
}

TEST(PlanCommand, AStragglerIsSimulated) {
  const Finished run = plan({"--op", "barrier", "--world", "2", "--alpha", "10", "--simulate", "--straggler", "1:2.5"});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  const auto words = row(run.out, "dissemination");
  ASSERT_EQ(words.size(), 6u) << run.out;
  EXPECT_EQ(words[4], "10.00");
  EXPECT_EQ(words[5], "25.00");
}

TEST(PlanCommand, WritesJson) {
  const TestFolder folder;
  expect_success(
      plan({"--op", "broadcast", "--bytes", "4096", "--world", "8", "--simulate", "--json", folder / "plan.json"}));
  const auto report = nlohmann::json::parse(folder.content("plan.json"));
  EXPECT_EQ(report["op"], "broadcast");
  EXPECT_EQ(report["bytes"], 4096);
  EXPECT_EQ(report["world_size"], 8);
  ASSERT_EQ(report["algorithms"].size(), 3u);
  EXPECT_EQ(report["algorithms"][0]["algorithm"], "binomial");
  EXPECT_EQ(report["algorithms"][0]["messages"], 3);
  EXPECT_DOUBLE_EQ(report["algorithms"][0]["predicted_us"], report["algorithms"][0]["simulated_us"]);
  EXPECT_GT(report["lower_bound_us"], 0);
}

TEST(PlanCommand, AFileThatCannotBeWrittenIsAFailure) {
  const Finished run = plan({"--op", "barrier", "--world", "2", "--json", "/nonexistent/plan.json"});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_EQ(run.err, "tutti plan: cannot write /nonexistent/plan.json: No such file or directory\n");
}

TEST(PlanCommand, WrongUsageIsOneSentence) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--op", "all_redcue", "--bytes", "8", "--world", "4"},
       "--op all_redcue: no such operation; known are all_reduce, broadcast, reduce, all_gather, gather, scatter, "
       "reduce_scatter, all_to_all, gather_v, scatter_v, all_gather_v, reduce_scatter_v, barrier"},
      {{"--op", "all_reduce", "--bytes", "8", "--world", "4", "--algo", "bruck"},
       "--algo bruck: no algorithm of that name for all_reduce of 4 ranks; there are ring, recursive_doubling, "
       "rabenseifner, binomial, double_tree, star"},
      {{"--op", "all_reduce", "--world", "4"}, "--bytes is required"},
      {{"--op", "barrier", "--world", "0"}, "--world 0: expected 1 .. 65536"},
      {{"--op", "barrier", "--world", "70000"}, "--world 70000: expected 1 .. 65536"},
      {{"--op", "barrier", "--world", "4", "--rank", "4"}, "--rank 4: the ranks are 0 .. 3"},
      {{"--op", "broadcast", "--bytes", "8", "--world", "4", "--root", "7"}, "--root 7: the ranks are 0 .. 3"},
      {{"--op", "barrier", "--world", "17", "--draw"}, "--draw: a world of 17 is too wide, at most 16 ranks are drawn"},
      {{"--op", "broadcast", "--bytes", "1000000000", "--world", "4", "--segment", "1"},
       "--segment 1: makes more than 5000000 segments of all ranks together"},
      {{"--op", "broadcast", "--bytes", "99999999999999999", "--world", "4"},
       "--bytes 99999999999999999: more than 64 TiB"},
      {{"--op", "barrier", "--world", "4", "--bandwidth", "0"}, "--bandwidth must be above 0 GB/s"},
      {{"--op", "barrier", "--world", "4", "--alpha", "nan"}, "--alpha must be 0 or more microseconds"},
      {{"--op", "barrier", "--world", "4", "--straggler", "4:2"},
       "--straggler 4:2: expected RANK:FACTOR with a rank of 0 .. 3 and a factor above 0"},
      {{"--op", "barrier", "--world", "4", "--straggler", "1:2x"},
       "--straggler 1:2x: expected RANK:FACTOR with a rank of 0 .. 3 and a factor above 0"},
  };
  for (const auto& [words, sentence] : cases) {
    const Finished run = plan(words);
    EXPECT_EQ(run.status, exited(2)) << sentence;
    EXPECT_EQ(run.err, "tutti plan: " + sentence + "\nRun 'tutti plan --help' for the options.\n");
    EXPECT_EQ(run.out, "");
  }
  EXPECT_EQ(plan({"--world", "4"}).status, exited(2)) << "without an operation";
}

// `tutti tune`, and what other commands make of its file.

Finished tune(const Words& words) { return tutti(joined({"tune"}, words)); }

class TuneCommand : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_ / name; }

  /// A tuning file by which `best` is the fastest algorithm for 4 bytes, measured over `transport`.
  std::string write_tuning(const std::string& transport, const std::string& best) const {
    comm::Tuning tuning{.host = "a", .date = "today", .place = {transport, 2, 1}, .model = {}, .rows = {}};
    tuning.rows = {{comm::OpKind::AllReduce, best, 4, 1e-6}, {comm::OpKind::AllReduce, "ring", 4, 2e-6}};
    folder_.write("t.json", comm::tuning_text(tuning));
    return "TUTTI_TUNING=" + file("t.json");
  }

  /// The algorithm by which `tutti bench` all-reduces 4 bytes on two ranks.
  std::string algorithm_of_bench(const Words& environment) {
    const Finished run = tutti({"bench", "all_reduce", "-n", "2", "--transport", "tcp", "--max-bytes", "4",
                                "--iterations", "1", "--json", file("bench.json")},
                               environment);
    expect_success(run);
    errors_ = run.err;
    return nlohmann::json::parse(folder_.content("bench.json")).at("results").at(0).at("algorithm");
  }

  const TestFolder folder_;
  std::string errors_;
};

TEST_F(TuneCommand, WritesAFileThatHoldsEveryChoice) {
  const Finished run = tune({file("t.json"), "-n", "2", "--transport", "tcp", "--seconds", "0.5"});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  EXPECT_EQ(run.err, "");
  expect_parts(run.out, {"# 2 ranks on 1 host(s) over tcp; "});
  const comm::Tuning tuning = comm::parse_tuning(folder_.content("t.json"));
  EXPECT_EQ(tuning.place, (comm::TuningPlace{"tcp", 2, 1}));
  EXPECT_GT(tuning.model.gamma, 0);
  EXPECT_GT(tuning.model.beta, 0);
  std::set<std::string> all_reduces;
  std::set<comm::OpKind> ops;
  for (const auto& row : tuning.rows) {
    EXPECT_GT(row.seconds, 0) << row.algorithm;
    ops.insert(row.op);
    if (row.op == comm::OpKind::AllReduce) all_reduces.insert(row.algorithm);
  }
  EXPECT_EQ(all_reduces,
            (std::set<std::string>{"ring", "recursive_doubling", "rabenseifner", "binomial", "double_tree", "star"}));
  EXPECT_EQ(ops.size(), 8u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1)
      << "something was left beside the file";
}

TEST_F(TuneCommand, ItsFileDecidesUnlessAnAlgorithmIsNamed) {
  const std::string variable = write_tuning("tcp", "double_tree");
  EXPECT_EQ(algorithm_of_bench({variable}), "double_tree");
  EXPECT_EQ(errors_, "");
  EXPECT_EQ(algorithm_of_bench({variable, "TUTTI_ALGO=ring"}), "ring");

  folder_.write("t.json", "{");
  EXPECT_EQ(algorithm_of_bench({variable}), "recursive_doubling");
  expect_parts(errors_, {"tuning file " + file("t.json") + " is not used: it is not JSON"});
}

TEST_F(TuneCommand, WhatWasMeasuredWithoutEncryptionIsNotUsedWithIt) {
  const Words environment{write_tuning("tcp", "double_tree"), "TUTTI_ENCRYPT=1"};
  EXPECT_EQ(algorithm_of_bench(environment), "recursive_doubling");
  expect_parts(errors_, {"measured with 2 ranks on 1 host(s) over tcp, but this group has 2 ranks on 1 host(s) over "
                         "tcp+tls; measure again"});
  write_tuning("tcp+tls", "double_tree");
  EXPECT_EQ(algorithm_of_bench(environment), "double_tree");
}

TEST_F(TuneCommand, WrongUsageIsStatus2WithOneSentenceFirst) {
  const struct {
    std::vector<std::string> words;
    std::string sentence;
  } cases[] = {
      {{"-n", "2"}, "tutti tune: give the FILE to write"},
      {{file("t.json")}, "tutti tune: a single rank has nothing to tune; give -n 2 or more"},
      {{file("t.json"), "-n", "2", "--seconds", "0"}, "tutti tune: --seconds: must be above 0, at most 3600"},
  };
  for (const auto& [words, sentence] : cases) expect_wrong_usage(tune(words), sentence);
}

TEST_F(TuneCommand, AFileThatCannotBeWrittenIsSaidBeforeMeasuring) {
  expect_failure(tutti({"tune", file("none/t.json"), "-n", "2"}), 1, {file("none")});
}

}  // namespace
}  // namespace tutti::test
