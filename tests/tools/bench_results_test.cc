// `tutti bench`, its two ends: the options, then the table's layout and the keys of the JSON file, which are a
// contract.

#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/bench/options.h>
#include <tutti/tools/bench/run_bench.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench_support.h"

namespace tutti::test {
namespace {

using namespace tools::bench;

Result example() {
  Result result{.op = "reduce",
                .ranks = 4,
                .transport = "tcp",
                .algorithm = "binomial",
                .registered = false,
                .dtype = "float32",
                .redop = "sum",
                .root = 0,
                .bytes = 1048576,
                .count = 262144,
                .measured = {}};
  result.measured = {.iterations = 20, .time = {80.5, 100.25, 2000.4, 123456.7}, .wrong = 3};
  result.algbw_gbps = 10.4597;
  result.busbw_gbps = 7.8448;
  return result;
}

std::string row_of(const Result& result) {
  std::ostringstream out;
  print_row(out, result);
  return out.str();
}

TEST(BenchTable, ARowHoldsItsNumbersInColumns) {
  EXPECT_EQ(row_of(example()),
            "      1048576       262144  float32    sum     0      80.50      100.2       2000     123457"
            "    10.46    7.845        3\n");
}

TEST(BenchTable, WhatDoesNotApplyIsNoneAndMinusOne) {
  Result result = example();
  result.dtype = result.redop = std::nullopt;
  result.root = std::nullopt;
  result.measured.wrong = std::nullopt;
  std::istringstream words(row_of(result));
  std::vector<std::string> columns;
  for (std::string word; words >> word;) columns.push_back(word);
  ASSERT_EQ(columns.size(), 12U);
  EXPECT_EQ(columns[2], "none");
  EXPECT_EQ(columns[3], "none");
  EXPECT_EQ(columns[4], "-1");
  EXPECT_EQ(columns[11], "N/A");
}

TEST(BenchTable, TitlesStandAboveTheirColumns) {
  std::ostringstream out;
  print_titles(out, "reduce");
  std::istringstream lines(out.str());
  std::vector<std::string> titles;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.front(), '#');
    titles.push_back(line);
  }
  ASSERT_EQ(titles.size(), 5U);
  EXPECT_EQ(titles[1], "# reduce");
  EXPECT_EQ(titles[3].size() + 1, row_of(example()).size());  // right-aligned alike; the row has a newline
  EXPECT_EQ(titles[3].find("busbw") + 5, titles[4].rfind("(GB/s)") + 6);
}

TEST(BenchTable, TheHeaderSaysWhatWasMeasured) {
  std::ostringstream out;
  print_header(out, {.measuring = {.warmup = 2, .iterations = 7}}, 4, "tcp");
  EXPECT_EQ(out.str().find("# tutti bench "), 0U);
  expect_parts(out.str(), {"build type ", "# ranks 4, transport tcp, algorithm chosen by size\n",
                           "# warmup 2, iterations 7, results checked\n"});
  print_header(out, {.measuring = {.fresh = true}}, 4, "tcp");
  expect_parts(out.str(), {"chosen by size, data fresh\n"});
}

TEST(BenchTable, TheFooterSumsWrongAndAveragesBandwidthOfRowsWithData) {
  Result barrier = example();
  barrier.bytes = 0;
  barrier.busbw_gbps = 0;
  Result other = example();
  other.busbw_gbps = 2.1552;
  other.measured.wrong = 4;
  std::ostringstream out;
  print_footer(out, std::vector<Result>{example(), other, barrier});
  EXPECT_EQ(out.str(), "#\n# Total wrong: 10\n# Average bus bandwidth: 5.000 GB/s\n");
}

using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

TEST(BenchResultsJson, HasExactlyTheseKeys) {
  const Json json = Json::parse(results_json(std::vector<Result>{example()}));
  EXPECT_EQ(keys_of(json), std::vector<std::string>{"results"});
  const Json& row = json["results"][0];
  EXPECT_EQ(keys_of(row),
            (std::vector<std::string>{"op", "ranks", "transport", "algorithm", "registered", "dtype", "redop", "bytes",
                                      "count", "iterations", "time_us", "algbw_gbps", "busbw_gbps", "wrong"}));
  EXPECT_EQ(keys_of(row["time_us"]), (std::vector<std::string>{"min", "median", "p99", "max"}));
  EXPECT_EQ(row["algorithm"], "binomial");
  EXPECT_EQ(row["time_us"]["p99"], 2000.4);
  EXPECT_EQ(row["wrong"], 3);
}

TEST(BenchResultsJson, WhatDoesNotApplyIsNull) {
  const Json json = Json::parse(results_json(std::vector<Result>(1)));
  for (const char* key : {"algorithm", "dtype", "redop", "wrong"}) {
    EXPECT_TRUE(json["results"][0][key].is_null()) << key;
  }
}

TEST(BenchResultsJson, NoRowsAreAnEmptyArray) {
  EXPECT_EQ(Json::parse(results_json({})), Json({{"results", Json::array()}}));
}

// Sizes, types and what is refused.

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
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.group.transport = "rdma"; }),
            "--transport 'rdma' is unknown; known are auto, tcp, shm and ucx");
  EXPECT_EQ(refusal_of([](BenchOptions& o) { o.group.algorithm = "rng"; }).find("--algo: unknown algorithm \"rng\""),
            0U);
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
