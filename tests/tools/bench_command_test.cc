// `tutti bench`, the program.

#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tools/bench/run_bench.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "bench_support.h"
#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

using namespace tools::bench;

Finished tutti_bench(const Words& words) { return tutti(joined({"bench"}, words)); }

/// What `tutti bench` with these words writes into the file of `option`; the run must succeed.
nlohmann::json file_of(const std::string& option, const Words& words, Finished& run) {
  const TestFolder folder;
  run = tutti_bench(joined(words, {option, folder / "file"}));
  expect_success(run);
  return nlohmann::json::parse(folder.content("file"));
}

TEST(BenchCommand, AllOperationsOnTwoRanksWithAJsonFile) {
  Finished run;
  const auto json =
      file_of("--json", {"all", "-n", "2", "--max-bytes", "4K", "--step-factor", "32", "--iterations", "20"}, run);
  EXPECT_EQ(run.err, "");
  expect_parts(run.out, {"# ranks 2, transport shm", "# Total wrong: 0\n"});
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
  Finished run;
  const auto trace = file_of("--trace", {"all_reduce", "-n", "2", "--max-bytes", "4", "--iterations", "3"}, run);
  std::map<int, Words> operations;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") operations[event.at("pid")].push_back(event.at("args").at("operation"));
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0], operations[1]);
  EXPECT_GT(operations[0].size(), 3U);
}

TEST(BenchCommand, TakesTheWorldThatALauncherMade) {
  expect_success(tutti({"run", "-n", "3", "--no-label", "--", TUTTI_PROGRAM, "bench", "all_reduce", "--max-bytes", "4",
                        "--iterations", "2", "--dtype", "int64"}),
                 {"# ranks 3, "});
}

TEST(BenchCommand, EncryptIsPassedOnToTheRanksAndShown) {
  const Words words{"all_reduce", "-n", "2", "--transport", "tcp", "--max-bytes", "4", "--iterations", "2"};
  expect_success(tutti_bench(joined(words, {"--encrypt"})), {"transport tcp+tls"});
  EXPECT_FALSE(contains(tutti_bench(words).out, "tls"));
}

TEST(BenchCommand, TheLauncherEncryptsForProgramsThatDoNotKnow) {
  expect_success(tutti({"run", "-n", "2", "--encrypt", "--no-label", "--", TUTTI_PROGRAM, "bench", "all_reduce",
                        "--transport", "tcp", "--max-bytes", "4", "--iterations", "2"}),
                 {"transport tcp+tls"});
}

TEST(BenchCommand, TheAlgorithmIsWhatWasAskedForWhereItImplementsTheOperation) {
  Finished run;
  std::map<std::string, nlohmann::json> used;
  const auto json =
      file_of("--json", {"all", "-n", "2", "--max-bytes", "4", "--algo", "ring", "--iterations", "1"}, run);
  for (const auto& row : json.at("results")) used[row.at("op")] = row.at("algorithm");
  EXPECT_EQ(used["all_reduce"], "ring");
  EXPECT_EQ(used["all_gather"], "ring");
  EXPECT_EQ(used["broadcast"], "binomial");
  EXPECT_TRUE(used["ping_pong"].is_null());
}

TEST(BenchCommand, ReproducibleReductionsHaveAlgorithmsOfTheirOwn) {
  Finished run;
  const auto json = file_of("--json",
                            {"all_reduce", "-n", "3", "--transport", "tcp", "--reproducible", "--min-bytes", "1M",
                             "--max-bytes", "1M", "--iterations", "1"},
                            run);
  expect_parts(run.out, {"algorithm chosen by size, reductions reproducible\n"});
  EXPECT_EQ(json.at("results").at(0).at("algorithm"), "fixed");
}

TEST(BenchCommand, TheIterationsFillATimeThatAllRanksAgreeOn) {
  expect_success(tutti_bench({"barrier", "-n", "2", "--no-check"}),
                 {"iterations for 300 ms or more, results not checked\n", "# Total wrong: N/A\n"});
}

TEST(BenchCommand, WrongUsageIsStatus2WithOneSentenceFirst) {
  const struct {
    std::vector<std::string> words;
    std::string sentence;
  } cases[] = {
      {{"all_reduce", "--max-bytes", "x"},
       "tutti bench: --max-bytes 'x' is no size; write bytes as 4, 1K, 16M or 64MiB (K = 1024)"},
      {{"all_reduce", "-n", "0"}, "tutti bench: --nproc 0: must be between 1 and 4096"},
      {{"all_reduce", "--iterations", "-1"}, "tutti bench: --iterations: Value -1 not in range 0 to 10000000"},
      {{"all_reduce", "--timeout", "0"}, "tutti bench: --timeout: must be between 0.001 and 1e9 seconds"},
      {{"ping_pong"}, "tutti bench: ping_pong needs 2 ranks; give -n 2"},
  };
  for (const auto& [words, sentence] : cases) expect_wrong_usage(tutti_bench(words), sentence);
  EXPECT_EQ(tutti_bench({}).status, exited(2));
  EXPECT_EQ(tutti_bench({"nothing"}).status, exited(2));
  EXPECT_EQ(tutti_bench({"--help"}).status, exited(0));
}

// A whole run within a group of threads: rows, exit status, and which rank prints.

BenchOptions quick() { return {.max_bytes = 64, .measuring = {.warmup = 1, .iterations = 2}}; }

TEST(BenchRun, RowsAreEqualOnAllRanksAndRankZeroPrintsThem) {
  std::array<std::ostringstream, 2> out;
  std::array<std::vector<Result>, 2> results;
  run_ranks(2, [&](comm::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    results[rank] = run_in_group(group, std::vector{bench_operation("all_gather")}, quick(), out[rank]);
  });
  ASSERT_EQ(results[0].size(), 3U);  // 4 bytes round up to 8; 16; 64
  EXPECT_EQ(results[0][0].bytes, 8U);
  EXPECT_EQ(results[0][0].count, 1U);
  EXPECT_EQ(results[0][2].bytes, 64U);
  EXPECT_EQ(results[0][2].algorithm, "ring");
  EXPECT_EQ(results[0][2].measured.time.median, results[1][2].measured.time.median);
  EXPECT_DOUBLE_EQ(results[0][2].busbw_gbps, results[0][2].algbw_gbps / 2);
  EXPECT_EQ(exit_status(results[0]), 0);
  expect_parts(out[0].str(), {"# Total wrong: 0\n"});
  EXPECT_EQ(out[1].str(), "");
}

TEST(BenchRun, SizesThatRoundToTheSameCountAreOneRow) {
  BenchOptions options = quick();
  options.min_bytes = 1;
  options.max_bytes = 8;
  options.step_factor = 2;
  run_ranks(2, [&](comm::ProcessGroup& group) {
    std::ostringstream out;
    EXPECT_EQ(run_in_group(group, std::vector{bench_operation("all_reduce")}, options, out).size(), 2U);
  });
}

TEST(BenchRun, APlantedWrongResultIsStatus1OnEveryRank) {
  Operation broken = bench_operation("broadcast");
  broken.run = [](comm::ProcessGroup& group, const Case& c, const comm::Buffer&, const comm::Buffer& output) {
    group.broadcast(output, c.root);
    if (c.rank == 1) static_cast<char*>(output.data)[0] ^= 1;
  };
  std::ostringstream out;
  run_ranks(2, [&](comm::ProcessGroup& group) {
    std::ostringstream unseen;
    const auto results = run_in_group(group, std::vector{broken}, quick(), group.rank() == 0 ? out : unseen);
    EXPECT_EQ(exit_status(results), 1);
  });
  expect_parts(out.str(), {"# Total wrong: 6\n"});  // one in each of two calls of three rows
}

TEST(BenchRun, APlantedWrongResultIsTheStatusOfTheProcess) {
  Operation broken = bench_operation("all_reduce");
  broken.run = [](comm::ProcessGroup&, const Case&, const comm::Buffer&, const comm::Buffer& output) {
    static_cast<float*>(output.data)[0] += 1;
  };
  std::ostringstream out;
  EXPECT_EQ(run_bench(std::vector{broken}, quick(), out), 1);
  EXPECT_EQ(run_bench(std::vector{bench_operation("all_reduce")}, quick(), out), 0);
}

TEST(BenchRun, AnOperationThatNeedsMoreRanksIsLeftOutAndNamed) {
  std::ostringstream out;
  EXPECT_EQ(run_bench(operations(), quick(), out), 0);  // a world of one
  expect_parts(out.str(), {"# ping_pong: left out, needs 2 ranks (-n)\n"});
}

TEST(BenchRun, AFolderThatIsNotThereIsSaidBeforeAnythingIsMeasured) {
  const Finished run = tutti_bench({"all_reduce", "--json", "/nonexistent-folder/results.json"});
  expect_failure(run, 1, {"tutti bench: ", "/nonexistent-folder"});
  EXPECT_EQ(run.out, "");
}

}  // namespace
}  // namespace tutti::test
