// The data that results are compared with.

#include <gtest/gtest.h>
#include <tutti/tools/bench/data.h>

#include <vector>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;
using comm::DType;
using comm::ReduceOp;

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
