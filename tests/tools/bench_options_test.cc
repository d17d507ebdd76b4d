// Sizes, types and what is refused.

#include <gtest/gtest.h>
#include <tutti/tools/bench/options.h>

#include <string>
#include <vector>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;

std::string refusal_of(const std::function<void(BenchOptions&)>& change) {
  BenchOptions options;
  change(options);
  return refusal([&options] { check_options(options); });
}

TEST(BenchOptions, SizesHaveUnitsOf1024) {
  const struct {
    const char* text;
    std::size_t bytes;
  } cases[] = {{"4", 4},
               {"0", 0},
               {"17B", 17},
               {"1K", 1024},
               {"1k", 1024},
               {"16M", 16U << 20},
               {"64MiB", 64U << 20},
               {"2GB", std::size_t{2} << 30},
               {"1T", std::size_t{1} << 40}};
  for (const auto& c : cases) EXPECT_EQ(parse_bytes(c.text, "--max-bytes"), c.bytes) << c.text;
}

TEST(BenchOptions, OtherWordsAreNoSizes) {
  for (const char* text :
       {"", "K", "-1", "1.5K", "4 K", "1KK", "1X", "1iB", "0x10", "99999999999999999999", "99999999T"}) {
    EXPECT_EQ(refusal([text] { (void)parse_bytes(text, "--max-bytes"); }),
              "--max-bytes '" + std::string(text) + "' is no size; write bytes as 4, 1K, 16M or 64MiB (K = 1024)");
  }
}

TEST(BenchOptions, StepsGrowUpToTheLargestSize) {
  BenchOptions options{.min_bytes = 4, .max_bytes = 300, .step_factor = 4};
  EXPECT_EQ(sizes(options), (std::vector<std::size_t>{4, 16, 64, 256}));
  options.max_bytes = 4;
  EXPECT_EQ(sizes(options), std::vector<std::size_t>{4});
  options.step_factor = 1;
  EXPECT_EQ(sizes(options), std::vector<std::size_t>{4});
}

TEST(BenchOptions, TypesAndOperatorsHaveTheNamesOfComm) {
  EXPECT_EQ(parse_dtype("uint8"), comm::DType::UInt8);
  EXPECT_EQ(parse_redop("max"), comm::ReduceOp::Max);
  EXPECT_EQ(refusal([] { (void)parse_dtype("float"); }).find("--dtype 'float' is unknown; known are float32, float64"),
            0U);
  EXPECT_EQ(refusal([] { (void)parse_redop("mean"); }),
            "--redop 'mean' is unknown; known are sum, avg, prod, min, max, band, bor, bxor");
}

TEST(BenchOptions, WhatCannotBeDoneIsRefusedWithASentence) {
  EXPECT_EQ(refusal_of([](BenchOptions&) {}), "not refused");
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.min_bytes = 0; }), "--min-bytes is 0, but must be at least 1");
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.min_bytes = o.max_bytes + 1; }),
            "--max-bytes 67108864 is less than --min-bytes 67108865");
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.step_factor = 1; }).find("--step-factor 1 never reaches"), 0U);
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.transport = "rdma"; }),
            "--transport 'rdma' is unknown; known are auto, tcp and shm");
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.algorithm = "rng"; }).find("--algo: unknown algorithm \"rng\""), 0U);
  EXPECT_EQ(refusal_of([](BenchOptions& o) {
              o.dtype = comm::DType::Int32;
              o.redop = comm::ReduceOp::Avg;
            }).find("--redop avg with --dtype int32"),
            0U);
}

std::string memory_refusal(const BenchOptions& options, std::string_view operation, int ranks) {
  const auto table = find_operations(operations(), operation);
  return refusal([&] { check_memory(options, table, ranks, ranks); });
}

TEST(BenchOptions, MoreMemoryThanThereIsIsRefused) {
  BenchOptions options;
  EXPECT_EQ(memory_refusal(options, "all", 1), "not refused");
  options.max_bytes = std::size_t{1} << 50;
  EXPECT_EQ(memory_refusal(options, "all", 2).find("--max-bytes 1125899906842624 with 2 ranks"), 0U);
  EXPECT_EQ(memory_refusal(options, "gather", 2).find("--max-bytes 1125899906842624 with 2 ranks"), 0U);
}

TEST(BenchOptions, MemoryIsCountedPerOperation) {
  BenchOptions options;
  options.max_bytes = std::size_t{1} << 50;
  EXPECT_EQ(memory_refusal(options, "barrier", 256), "not refused");  // has no buffers
  // A rank's share of a gathered array shrinks as the world grows; and of a world all but two look on.
  options.max_bytes = std::size_t{16} << 20;
  EXPECT_EQ(memory_refusal(options, "gather", 4096), "not refused");
  EXPECT_EQ(memory_refusal(options, "ping_pong", 4096), "not refused");
}

}  // namespace
}  // namespace tutti::test
