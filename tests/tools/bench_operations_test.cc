// The table of operations: how bytes are counted, the factors of bus bandwidth, and names.

#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/bench/options.h>

#include <set>
#include <string>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;

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

}  // namespace
}  // namespace tutti::test
