// The keys of the JSON file are a contract.

#include <gtest/gtest.h>
#include <tutti/tools/bench/results_json.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::test {
namespace {

using namespace tools::bench;
using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

TEST(BenchResultsJson, HasExactlyTheseKeys) {
  Result result{.op = "all_reduce",
                .ranks = 2,
                .transport = "tcp",
                .algorithm = "ring",
                .registered = false,
                .dtype = "float32",
                .redop = "sum",
                .root = {},
                .bytes = 1024,
                .count = 256,
                .measured = {}};
  result.measured = {.iterations = 9, .time = {1, 2, 3, 4}, .wrong = 0};
  const Json json = Json::parse(results_json(std::vector<Result>{result}));
  EXPECT_EQ(keys_of(json), std::vector<std::string>{"results"});
  const Json& row = json["results"][0];
  EXPECT_EQ(keys_of(row),
            (std::vector<std::string>{"op", "ranks", "transport", "algorithm", "registered", "dtype", "redop", "bytes",
                                      "count", "iterations", "time_us", "algbw_gbps", "busbw_gbps", "wrong"}));
  EXPECT_EQ(keys_of(row["time_us"]), (std::vector<std::string>{"min", "median", "p99", "max"}));
  EXPECT_EQ(row["algorithm"], "ring");
  EXPECT_EQ(row["time_us"]["p99"], 3.0);
  EXPECT_EQ(row["wrong"], 0);
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

}  // namespace
}  // namespace tutti::test
