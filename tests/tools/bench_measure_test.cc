// What `tutti bench` measures. The measuring loop: how often, what of it is reported, and that wrong results are found.

#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tools/bench/data.h>
#include <tutti/tools/bench/live_line.h>
#include <tutti/tools/bench/measure.h>
#include <tutti/tools/bench/options.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;
using namespace std::chrono_literals;
using comm::DType;
using comm::ReduceOp;

TEST(BenchMeasure, AFixedNumberOfIterationsIsOneBatch) {
  const MeasureOptions options{.iterations = 37};
  EXPECT_EQ(next_batch(0, 0ns, options), 37U);
  EXPECT_EQ(next_batch(37, 1ns, options), 0U);
}

TEST(BenchMeasure, IterationsGrowUntilTheTimeHasPassed) {
  const MeasureOptions options{.min_time = 100ms};
  EXPECT_GT(next_batch(0, 0ns, options), 0U);
  EXPECT_EQ(next_batch(10, 20ms, options), 40U);       // 2 ms each: 40 more make 100 ms
  EXPECT_EQ(next_batch(10, 1us, options), 90U);        // at most ten times as many
  EXPECT_EQ(next_batch(10, 100ms, options), 0U);       // enough
  EXPECT_EQ(next_batch(4, 1s, options), 1U);           // long, but too few for a median
  EXPECT_EQ(next_batch(100'000, 1us, options), 0U);    // for a clock that does not move
  EXPECT_EQ(next_batch(1000, 99'999us, options), 1U);  // at least one, or it would never end
}

TEST(BenchMeasure, TheLiveLineNamesTheStepAndTheTimeLeft) {
  EXPECT_EQ(progress_text("all_reduce 4 B", 0, 8, 0s), "all_reduce 4 B  step 1/8");
  EXPECT_EQ(progress_text("all_reduce 4 B", 2, 8, 4s), "all_reduce 4 B  step 3/8  12 s left");
  EXPECT_EQ(progress_text("barrier", 1, 101, 3s), "barrier  step 2/101  5 min left");
}

TEST(BenchMeasure, PercentilesAreNearestRank) {
  std::vector<double> times(200);
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = static_cast<double>(200 - i);
  const TimesUs summary = summarize(times);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.median, 100);
  EXPECT_EQ(summary.p99, 198);
  EXPECT_EQ(summary.max, 200);
  EXPECT_EQ(summarize({5}).median, 5);
  EXPECT_EQ(summarize({5}).p99, 5);
}

Case case_of(const comm::ProcessGroup& group, std::size_t count, comm::DType dtype, comm::ReduceOp op) {
  return {
      .rank = group.rank(), .world_size = group.world_size(), .root = 0, .count = count, .dtype = dtype, .redop = op};
}

TEST(BenchMeasure, EveryOperationIsRightInEveryType) {
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, [](comm::ProcessGroup& group) {
      for (const Operation& operation : operations()) {
        for (const comm::DType dtype : verifiable_types()) {
          for (const auto op : {comm::ReduceOp::Sum, comm::ReduceOp::Avg, comm::ReduceOp::Prod, comm::ReduceOp::Min,
                                comm::ReduceOp::Max, comm::ReduceOp::BXor, comm::ReduceOp::BAnd, comm::ReduceOp::BOr}) {
            if (!comm::refusal(op, dtype).empty()) continue;
            const std::size_t count = operation.moves_data ? 33 : 0;
            const Measurement measured =
                measure(group, operation, case_of(group, count, dtype, op), {.warmup = 1, .iterations = 2});
            EXPECT_EQ(measured.wrong, 0U) << operation.name << " " << comm::name(dtype) << " " << comm::name(op);
            EXPECT_EQ(measured.iterations, 2U);
            EXPECT_LE(measured.time.min, measured.time.median);
            EXPECT_LE(measured.time.p99, measured.time.max);
          }
        }
      }
    });
  }
}

/// So many wrong elements are counted when two ranks run the operation on `count` floats each.
void expect_wrong(std::optional<std::size_t> wrong, const Operation& operation, std::size_t count,
                  const MeasureOptions& options) {
  run_ranks(2, [&](comm::ProcessGroup& group) {
    const Case c = case_of(group, count, comm::DType::Float32, comm::ReduceOp::Sum);
    EXPECT_EQ(measure(group, operation, c, options).wrong, wrong);
  });
}

TEST(BenchMeasure, WrongElementsAreSummedOverRanksAndCalls) {
  Operation broken = bench_operation("all_reduce");
  broken.run = [](comm::ProcessGroup& group, const Case& c, const comm::Buffer&, const comm::Buffer& output) {
    group.all_reduce(output, c.redop);
    if (c.rank == 1) static_cast<float*>(output.data)[2] += 1;
  };
  expect_wrong(3U, broken, 16, {.iterations = 3});
}

TEST(BenchMeasure, AnElementThatIsNeverWrittenIsWrong) {
  Operation idle = bench_operation("all_gather");
  idle.run = [](comm::ProcessGroup&, const Case&, const comm::Buffer&, const comm::Buffer&) {};
  expect_wrong(32U, idle, 8, {.iterations = 1});
}

TEST(BenchMeasure, FreshDataIsWrittenAnewBeforeEachCall) {
  Operation spoiling = bench_operation("all_gather");
  spoiling.run = [](comm::ProcessGroup& group, const Case&, const comm::Buffer& input, const comm::Buffer& output) {
    group.all_gather(input, output);
    static_cast<float*>(input.data)[5] += 1;
  };
  expect_wrong(8U, spoiling, 8, {.warmup = 0, .iterations = 3});  // both of each rank's, twice
  expect_wrong(0U, spoiling, 8, {.warmup = 1, .iterations = 3, .fresh = true});
}

TEST(BenchMeasure, FreshDataIsAlsoThatOfWhatWorksInPlace) {
  Operation spoiling = bench_operation("all_reduce");
  spoiling.run = [](comm::ProcessGroup& group, const Case& c, const comm::Buffer&, const comm::Buffer& output) {
    const auto* values = static_cast<const float*>(output.data);
    static thread_local std::vector<float> first;
    if (first.empty()) first.assign(values, values + c.count);
    EXPECT_EQ(std::memcmp(values, first.data(), c.count * sizeof(float)), 0);
    group.all_reduce(output, c.redop);
  };
  run_ranks(2, [&spoiling](comm::ProcessGroup& group) {
    const Case c = case_of(group, 100, comm::DType::Float32, comm::ReduceOp::Sum);
    measure(group, spoiling, c, {.warmup = 1, .iterations = 3, .check = false, .fresh = true});
  });
}

TEST(BenchMeasure, WithoutCheckNothingIsSaidAboutResults) {
  expect_wrong(std::nullopt, bench_operation("all_reduce"), 8, {.iterations = 1, .check = false});
}

// The table of operations: how bytes are counted, the factors of bus bandwidth, and names.

constexpr std::size_t kFloatBytes = 4;

// Counts are those of 1024 bytes in float32 on 4 ranks; a whole array is shared among the ranks. Bus factors are those
// of nccl-tests.
TEST(BenchOperations, CountsBytesAndBusFactors) {
  const struct {
    const char* name;
    std::size_t count, bytes;
    double bus_factor_of_2, bus_factor_of_4;
  } cases[] = {
      {"all_reduce", 256, 1024, 1, 1.5},
      {"broadcast", 256, 1024, 1, 1},
      {"reduce", 256, 1024, 1, 1},
      {"ping_pong", 256, 1024, 1, 1},
      {"all_gather", 64, 1024, 0.5, 0.75},
      {"gather", 64, 1024, 0.5, 0.75},
      {"reduce_scatter", 64, 1024, 0.5, 0.75},
      {"scatter", 64, 1024, 0.5, 0.75},
      {"all_to_all", 64, 1024, 0.5, 0.75},
      {"barrier", 0, 0, 1, 1},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Operation& operation = bench_operation(c.name);
    EXPECT_EQ(count_for(operation, 1024, kFloatBytes, 4), c.count);
    EXPECT_EQ(bytes_for(operation, c.count, kFloatBytes, 4), c.bytes);
    EXPECT_DOUBLE_EQ(operation.bus_factor(2), c.bus_factor_of_2);
    EXPECT_DOUBLE_EQ(operation.bus_factor(4), c.bus_factor_of_4);
  }
}

TEST(BenchOperations, SizesRoundDownToWholeElementsButToOneAtLeast) {
  EXPECT_EQ(count_for(bench_operation("all_reduce"), 11, kFloatBytes, 2), 2U);
  EXPECT_EQ(count_for(bench_operation("all_reduce"), 1, kFloatBytes, 2), 1U);
  EXPECT_EQ(count_for(bench_operation("all_gather"), 4, kFloatBytes, 3), 1U);
  EXPECT_EQ(bytes_for(bench_operation("all_gather"), 1, kFloatBytes, 3), 12U);
}

TEST(BenchOperations, OnlyRootsHoldWholeArraysOfRootedOperations) {
  const Case at_root{.rank = 0, .world_size = 3, .root = 0, .count = 5};
  const Case elsewhere{.rank = 2, .world_size = 3, .root = 0, .count = 5};
  const auto expect = [](const char* name, const Case& c, std::size_t input, std::size_t output) {
    const Extents extents = bench_operation(name).extents(c);
    EXPECT_EQ(extents.input, input) << name << " at rank " << c.rank;
    EXPECT_EQ(extents.output, output) << name << " at rank " << c.rank;
  };
  expect("reduce", at_root, 5, 5);
  expect("reduce", elsewhere, 5, 0);
  expect("gather", at_root, 5, 15);
  expect("gather", elsewhere, 5, 0);
  expect("scatter", at_root, 15, 5);
  expect("scatter", elsewhere, 0, 5);
  expect("all_gather", elsewhere, 5, 15);
  expect("reduce_scatter", elsewhere, 15, 5);
  expect("all_to_all", elsewhere, 15, 15);
  expect("ping_pong", elsewhere, 0, 0);
}

TEST(BenchOperations, TimeOfPingPongIsOneWay) {
  EXPECT_DOUBLE_EQ(bench_operation("ping_pong").time_share, 0.5);
  EXPECT_DOUBLE_EQ(bench_operation("all_reduce").time_share, 1);
}

TEST(BenchOperations, AllMeansEachOnce) {
  std::set<std::string_view> names;
  for (const Operation& operation : find_operations(operations(), "all")) names.insert(operation.name);
  EXPECT_EQ(names.size(), operations().size());
  EXPECT_EQ(find_operations(operations(), "gather").size(), 1U);
}

TEST(BenchOperations, AnUnknownNameListsTheKnownOnes) {
  const std::string text = refusal([] { (void)find_operations(operations(), "all_reduc"); });
  EXPECT_TRUE(text.starts_with("unknown operation 'all_reduc'; known are all_reduce, broadcast, ")) << text;
  expect_parts(text, {"ping_pong"});
}

// The data that results are compared with.

constexpr std::uint64_t kSeed = 7;

std::vector<float> data_of(int rank, std::size_t count, std::uint64_t seed = kSeed) {
  std::vector<float> values(count);
  fill_data({.rank = rank}, seed, comm::buffer(std::span(values)));
  return values;
}

std::vector<float> expected_of(const char* operation, const Case& c, std::size_t count) {
  std::vector<float> values(count);
  fill_expected(bench_operation(operation), c, kSeed, comm::buffer(std::span(values)));
  return values;
}

TEST(BenchData, DependsOnSeedRankAndIndexOnly) {
  EXPECT_EQ(data_of(1, 100), data_of(1, 100));
  EXPECT_NE(data_of(1, 100), data_of(0, 100));
  EXPECT_NE(data_of(1, 100), data_of(1, 100, kSeed + 1));
  const std::vector<float> longer = data_of(1, 200);
  EXPECT_EQ(std::vector<float>(longer.begin(), longer.begin() + 100), data_of(1, 100));
}

TEST(BenchData, ExpectedOfAReductionIsTheReduction) {
  const Case c{.rank = 1, .world_size = 3, .count = 50};
  const std::vector<float> a = data_of(0, 50), b = data_of(1, 50), d = data_of(2, 50);
  const std::vector<float> sum = expected_of("all_reduce", c, 50);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(sum[i], a[i] + b[i] + d[i]);
  Case averaging = c;
  averaging.redop = ReduceOp::Avg;
  const std::vector<float> average = expected_of("reduce", averaging, 50);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(average[i], (a[i] + b[i] + d[i]) / 3);
}

TEST(BenchData, ExpectedOfBlocksIsWhereTheyCameFrom) {
  const Case c{.rank = 1, .world_size = 2, .root = 0, .count = 3};
  const std::vector<float> a = data_of(0, 6), b = data_of(1, 3);
  EXPECT_EQ(expected_of("all_gather", c, 6), (std::vector<float>{a[0], a[1], a[2], b[0], b[1], b[2]}));
  EXPECT_EQ(expected_of("scatter", c, 3), (std::vector<float>{a[3], a[4], a[5]}));
  EXPECT_EQ(expected_of("broadcast", c, 3), data_of(0, 3));
  EXPECT_EQ(expected_of("ping_pong", c, 3), data_of(0, 3));
}

TEST(BenchData, WrongElementsAreCountedByTheirBits) {
  std::vector<float> values = data_of(0, 10);
  const std::vector<float> expected = values;
  const auto wrong = [&] {
    return count_wrong(comm::buffer(std::span(values)), comm::const_buffer(std::span(expected)));
  };
  EXPECT_EQ(wrong(), 0U);
  values[3] += 1;
  values[9] = -values[9] + 1000;
  EXPECT_EQ(wrong(), 2U);
}

TEST(BenchData, EveryTypeAndOperatorHasExpectations) {
  for (const DType dtype : verifiable_types()) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
      const Case c{.rank = 0, .world_size = 5, .count = 64, .dtype = dtype, .redop = op};
      std::vector<std::byte> before(64 * comm::size_of(dtype)), after(before.size());
      fill_data(c, kSeed, {before.data(), 64, dtype});
      fill_expected(bench_operation("all_reduce"), c, kSeed, {after.data(), 64, dtype});
      EXPECT_NE(before, after) << comm::name(dtype) << " " << comm::name(op);
    }
  }
}

}  // namespace
}  // namespace tutti::test
