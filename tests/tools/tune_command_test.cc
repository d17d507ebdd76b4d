// `tutti tune`, and what other commands make of its file.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <tutti/comm/algorithms/tuning.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tutti_program.h"

namespace tutti::test {
namespace {

class TuneCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_tune_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  /// The algorithm by which `tutti bench` all-reduces 4 bytes on two ranks.
  std::string algorithm_of_bench(const std::vector<std::string>& environment) {
    const Finished run = run_program({TUTTI_PROGRAM, "bench", "all_reduce", "-n", "2", "--transport", "tcp",
                                      "--max-bytes", "4", "--iterations", "1", "--json", file("bench.json")},
                                     environment);
    EXPECT_EQ(run.status, exited(0)) << run.err;
    errors_ = run.err;
    return nlohmann::json::parse(content("bench.json")).at("results").at(0).at("algorithm");
  }

  std::filesystem::path folder_;
  std::string errors_;
};

TEST_F(TuneCommand, WritesAFileThatHoldsEveryChoice) {
  const Finished run =
      run_program({TUTTI_PROGRAM, "tune", file("t.json"), "-n", "2", "--transport", "tcp", "--seconds", "0.5"});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_NE(run.out.find("# 2 ranks on 1 host(s) over tcp; "), std::string::npos) << run.out;
  const comm::Tuning tuning = comm::parse_tuning(content("t.json"));
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
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "something was left beside the file";
}

TEST_F(TuneCommand, ItsFileDecidesUnlessAnAlgorithmIsNamed) {
  comm::Tuning tuning{.host = "a", .date = "today", .place = {"tcp", 2, 1}, .model = {}, .rows = {}};
  tuning.rows = {{comm::OpKind::AllReduce, "double_tree", 4, 1e-6}, {comm::OpKind::AllReduce, "ring", 4, 2e-6}};
  std::ofstream(file("t.json")) << comm::tuning_text(tuning);
  const std::string variable = "TUTTI_TUNING=" + file("t.json");
  EXPECT_EQ(algorithm_of_bench({variable}), "double_tree");
  EXPECT_EQ(errors_, "");
  EXPECT_EQ(algorithm_of_bench({variable, "TUTTI_ALGO=ring"}), "ring");

  std::ofstream(file("t.json")) << "{";
  EXPECT_EQ(algorithm_of_bench({variable}), "recursive_doubling");
  EXPECT_NE(errors_.find("tuning file " + file("t.json") + " is not used: it is not JSON"), std::string::npos)
      << errors_;
}

TEST_F(TuneCommand, WhatWasMeasuredWithoutEncryptionIsNotUsedWithIt) {
  comm::Tuning tuning{.host = "a", .date = "today", .place = {"tcp", 2, 1}, .model = {}, .rows = {}};
  tuning.rows = {{comm::OpKind::AllReduce, "double_tree", 4, 1e-6}};
  std::ofstream(file("t.json")) << comm::tuning_text(tuning);
  const std::vector<std::string> environment{"TUTTI_TUNING=" + file("t.json"), "TUTTI_ENCRYPT=1"};
  EXPECT_EQ(algorithm_of_bench(environment), "recursive_doubling");
  EXPECT_NE(errors_.find("measured with 2 ranks on 1 host(s) over tcp, but this group has 2 ranks on 1 host(s) over "
                         "tcp+tls; measure again"),
            std::string::npos)
      << errors_;
  tuning.place.transport = "tcp+tls";
  std::ofstream(file("t.json")) << comm::tuning_text(tuning);
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
  for (const auto& [words, sentence] : cases) {
    std::vector<std::string> command{TUTTI_PROGRAM, "tune"};
    command.insert(command.end(), words.begin(), words.end());
    const Finished run = run_program(command);
    EXPECT_EQ(run.status, exited(2));
    EXPECT_EQ(first_line(run.err), sentence);
  }
}

TEST_F(TuneCommand, AFileThatCannotBeWrittenIsSaidBeforeMeasuring) {
  const Finished run = run_program({TUTTI_PROGRAM, "tune", file("none/t.json"), "-n", "2"});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_NE(run.err.find(file("none")), std::string::npos) << run.err;
}

}  // namespace
}  // namespace tutti::test
