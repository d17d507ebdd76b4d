// The measuring loop: how often, what of it is reported, and that wrong results are found.

#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tools/bench/data.h>
#include <tutti/tools/bench/measure.h>

#include <cstring>
#include <vector>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;
using namespace std::chrono_literals;

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

}  // namespace
}  // namespace tutti::test
