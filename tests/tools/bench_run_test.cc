// A whole run within a group of threads: rows, exit status, and who prints.

#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tools/bench/run_bench.h>

#include <array>
#include <sstream>
#include <vector>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;

BenchOptions quick() { return {.max_bytes = 64, .iterations = 2, .warmup = 1}; }

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
  std::ostringstream out, err;
  EXPECT_EQ(run_bench(std::vector{broken}, quick(), out, err), 1);
  EXPECT_EQ(run_bench(std::vector{bench_operation("all_reduce")}, quick(), out, err), 0);
  EXPECT_EQ(err.str(), "");
}

TEST(BenchRun, AnOperationThatNeedsMoreRanksIsLeftOutAndNamed) {
  std::ostringstream out, err;
  EXPECT_EQ(run_bench(operations(), quick(), out, err), 0);  // a world of one
  expect_parts(out.str(), {"# ping_pong: left out, needs 2 ranks (-n)\n"});
}

TEST(BenchRun, AFolderThatIsNotThereIsSaidBeforeAnythingIsMeasured) {
  BenchOptions options = quick();
  options.json = "/nonexistent-folder/results.json";
  std::ostringstream out, err;
  EXPECT_EQ(run_bench(operations(), options, out, err), 1);
  EXPECT_EQ(out.str(), "");
  expect_parts(err.str(), {"/nonexistent-folder"});
}

}  // namespace
}  // namespace tutti::test
