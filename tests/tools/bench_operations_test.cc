// The table of operations: how bytes are counted, the factors of bus bandwidth, and names.

#include <gtest/gtest.h>
#include <tutti/tools/bench/options.h>

#include <set>
#include <string>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;

constexpr std::size_t kFloatBytes = 4;

TEST(BenchOperations, TheSizeOfAWholeArrayIsSharedAmongRanks) {
  for (const char* name : {"all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"}) {
    const Operation& operation = bench_operation(name);
    EXPECT_EQ(count_for(operation, 1024, kFloatBytes, 4), 64U) << name;
    EXPECT_EQ(bytes_for(operation, 64, kFloatBytes, 4), 1024U) << name;
  }
  for (const char* name : {"all_reduce", "broadcast", "reduce", "ping_pong"}) {
    const Operation& operation = bench_operation(name);
    EXPECT_EQ(count_for(operation, 1024, kFloatBytes, 4), 256U) << name;
    EXPECT_EQ(bytes_for(operation, 256, kFloatBytes, 4), 1024U) << name;
  }
}

TEST(BenchOperations, SizesRoundDownToWholeElementsButToOneAtLeast) {
  EXPECT_EQ(count_for(bench_operation("all_reduce"), 11, kFloatBytes, 2), 2U);
  EXPECT_EQ(count_for(bench_operation("all_reduce"), 1, kFloatBytes, 2), 1U);
  EXPECT_EQ(count_for(bench_operation("all_gather"), 4, kFloatBytes, 3), 1U);
  EXPECT_EQ(bytes_for(bench_operation("all_gather"), 1, kFloatBytes, 3), 12U);
}

TEST(BenchOperations, ABarrierMovesNothing) {
  EXPECT_EQ(count_for(bench_operation("barrier"), 1024, kFloatBytes, 4), 0U);
  EXPECT_EQ(bytes_for(bench_operation("barrier"), 0, kFloatBytes, 4), 0U);
}

TEST(BenchOperations, BusFactorsAreThoseOfNcclTests) {
  const struct {
    const char* name;
    double of_2_ranks, of_4_ranks;
  } cases[] = {{"all_reduce", 1, 1.5},        {"all_gather", 0.5, 0.75}, {"gather", 0.5, 0.75}, {"scatter", 0.5, 0.75},
               {"broadcast", 1, 1},           {"reduce", 1, 1},          {"ping_pong", 1, 1},   {"barrier", 1, 1},
               {"reduce_scatter", 0.5, 0.75}, {"all_to_all", 0.5, 0.75}};
  for (const auto& c : cases) {
    EXPECT_DOUBLE_EQ(bench_operation(c.name).bus_factor(2), c.of_2_ranks) << c.name;
    EXPECT_DOUBLE_EQ(bench_operation(c.name).bus_factor(4), c.of_4_ranks) << c.name;
  }
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
  try {
    (void)find_operations(operations(), "all_reduc");
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("unknown operation 'all_reduc'; known are all_reduce, broadcast, "), 0U) << text;
    EXPECT_NE(text.find("ping_pong"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tutti::test
