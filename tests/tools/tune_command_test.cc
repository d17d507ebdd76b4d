// `tutti tune`, and what other commands make of its file.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/tuning.h>

#include <nlohmann/json.hpp>
#include <set>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

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
