// `tutti bench`, the program.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench_support.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

Finished tutti_bench(std::vector<std::string> words) {
  words.insert(words.begin(), {TUTTI_PROGRAM, "bench"});
  return run_program(words);
}

/// A folder of its own that goes with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_bench_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

TEST(BenchCommand, AllOperationsOnTwoRanksWithAJsonFile) {
  const Folder folder;
  const std::string file = folder.file("results.json");
  const Finished run =
      tutti_bench({"all", "-n", "2", "--max-bytes", "4K", "--step-factor", "32", "--iterations", "20", "--json", file});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_NE(run.out.find("# ranks 2, transport shm"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("# Total wrong: 0\n"), std::string::npos) << run.out;

  const auto json = nlohmann::json::parse(std::ifstream(file));
  std::set<std::string> seen;
  for (const auto& row : json.at("results")) {
    seen.insert(row.at("op"));
    EXPECT_EQ(row.at("ranks"), 2);
    EXPECT_EQ(row.at("transport"), "shm");
    EXPECT_EQ(row.at("iterations"), 20);
    EXPECT_EQ(row.at("wrong"), 0);
    EXPECT_GT(row.at("time_us").at("median"), 0.0);
  }
  for (const auto& operation : tools::bench::operations()) EXPECT_EQ(seen.count(std::string(operation.name)), 1U);
}

TEST(BenchCommand, WritesATraceOfAllRanks) {
  const Folder folder;
  const std::string file = folder.file("trace.json");
  const Finished run = tutti_bench({"all_reduce", "-n", "2", "--max-bytes", "4", "--iterations", "3", "--trace", file});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  std::map<int, std::vector<std::string>> operations;
  const auto trace = nlohmann::json::parse(std::ifstream(file));
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") operations[event.at("pid")].push_back(event.at("args").at("operation"));
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0], operations[1]);
  EXPECT_GT(operations[0].size(), 3U);
}

TEST(BenchCommand, TakesTheWorldThatALauncherMade) {
  const Finished run = run_program({TUTTI_PROGRAM, "run", "-n", "3", "--no-label", "--", TUTTI_PROGRAM, "bench",
                                    "all_reduce", "--max-bytes", "4", "--iterations", "2", "--dtype", "int64"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("# ranks 3, "), std::string::npos) << run.out;
}

TEST(BenchCommand, EncryptIsPassedOnToTheRanksAndShown) {
  const std::vector<std::string> words{"all_reduce", "-n",           "2", "--transport", "tcp", "--max-bytes",
                                       "4",          "--iterations", "2"};
  std::vector<std::string> encrypted = words;
  encrypted.push_back("--encrypt");
  const Finished run = tutti_bench(encrypted);
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("transport tcp+tls"), std::string::npos) << run.out;
  EXPECT_EQ(tutti_bench(words).out.find("tls"), std::string::npos);
}

TEST(BenchCommand, TheLauncherEncryptsForProgramsThatDoNotKnow) {
  const Finished run =
      run_program({TUTTI_PROGRAM, "run", "-n", "2", "--encrypt", "--no-label", "--", TUTTI_PROGRAM, "bench",
                   "all_reduce", "--transport", "tcp", "--max-bytes", "4", "--iterations", "2"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("transport tcp+tls"), std::string::npos) << run.out;
}

TEST(BenchCommand, TheAlgorithmIsWhatWasAskedForWhereItImplementsTheOperation) {
  const Folder folder;
  const std::string file = folder.file("results.json");
  const Finished run =
      tutti_bench({"all", "-n", "2", "--max-bytes", "4", "--algo", "ring", "--iterations", "1", "--json", file});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  std::map<std::string, nlohmann::json> used;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  for (const auto& row : json.at("results")) {
    used[row.at("op")] = row.at("algorithm");
  }
  EXPECT_EQ(used["all_reduce"], "ring");
  EXPECT_EQ(used["all_gather"], "ring");
  EXPECT_EQ(used["broadcast"], "binomial");
  EXPECT_TRUE(used["ping_pong"].is_null());
}

TEST(BenchCommand, ReproducibleReductionsHaveAlgorithmsOfTheirOwn) {
  const Folder folder;
  const std::string file = folder.file("results.json");
  const Finished run = tutti_bench({"all_reduce", "-n", "3", "--transport", "tcp", "--reproducible", "--min-bytes",
                                    "1M", "--max-bytes", "1M", "--iterations", "1", "--json", file});
  ASSERT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("algorithm chosen by size, reductions reproducible\n"), std::string::npos) << run.out;
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(file)).at("results").at(0).at("algorithm"), "fixed");
}

TEST(BenchCommand, TheIterationsFillATimeThatAllRanksAgreeOn) {
  const Finished run = tutti_bench({"barrier", "-n", "2", "--no-check"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("iterations for 300 ms or more, results not checked\n"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("# Total wrong: N/A\n"), std::string::npos) << run.out;
}

TEST(BenchCommand, WrongUsageIsStatus2WithOneSentenceFirst) {
  const struct {
    std::vector<std::string> words;
    std::string sentence;
  } cases[] = {
      {{"all_reduce", "--transport", "rdma"},
       "tutti bench: --transport 'rdma' is unknown; known are auto, tcp and shm"},
      {{"all_reduce", "--max-bytes", "x"},
       "tutti bench: --max-bytes 'x' is no size; write bytes as 4, 1K, 16M or 64MiB (K = 1024)"},
      {{"all_reduce", "-n", "0"}, "tutti bench: --nproc 0: must be between 1 and 4096"},
      {{"all_reduce", "--iterations", "-1"}, "tutti bench: --iterations -1: must be between 0 and 10000000"},
      {{"all_reduce", "--timeout", "0"}, "tutti bench: --timeout: must be between 0.001 and 1e9 seconds"},
      {{"ping_pong"}, "tutti bench: ping_pong needs 2 ranks; give -n 2"},
  };
  for (const auto& c : cases) {
    const Finished run = tutti_bench(c.words);
    EXPECT_EQ(run.status, exited(2)) << c.sentence;
    EXPECT_EQ(first_line(run.err), c.sentence);
    EXPECT_EQ(run.out, "");
  }
  EXPECT_EQ(tutti_bench({}).status, exited(2));
  EXPECT_EQ(tutti_bench({"nothing"}).status, exited(2));
  EXPECT_EQ(tutti_bench({"--help"}).status, exited(0));
}

}  // namespace
}  // namespace tutti::test
