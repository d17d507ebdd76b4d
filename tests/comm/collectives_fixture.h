// What the tests of collectives share: the grid of worlds, nets and algorithms, and data whose reductions are exact.
#pragma once

#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/full_run.h>
#include <tutti/tests/support/run_ranks.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

namespace tutti::comm {

using test::Net;
using test::run_ranks;
using test::RunRanksOptions;

struct Case {
  Net net;
  int world_size;
  std::string algorithm;
  std::vector<int> hosts{};
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.world_size << " ranks " << c.algorithm; }

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  return name(info.param.net) + std::to_string(info.param.world_size) +
         (info.param.algorithm.empty() ? "" : "_" + info.param.algorithm) + (info.param.hosts.empty() ? "" : "_hosts");
}

class Collectives : public testing::TestWithParam<Case> {
 protected:
  RunRanksOptions options() const {
    RunRanksOptions options{.net = GetParam().net, .hosts = GetParam().hosts};
    options.group.algorithm = GetParam().algorithm;
    options.group.segment_bytes = 4096;  // several segments at small sizes
    return options;
  }
  int world() const { return GetParam().world_size; }
  void run(const test::RankBody& body) const { run_ranks(world(), body, options()); }

  std::vector<std::size_t> counts() const {
    const auto p = static_cast<std::size_t>(world());
    return {0, 1, p - 1, p, p + 1, 97, 1023, 1024, 1025, 20011};
  }
};

/// Small integers, so that every order of summation is exact.
template <typename T>
T element(int rank, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 7 + i * 3) % 11 + 1);
}

template <typename T>
std::vector<T> input_of(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = element<T>(rank, i);
  return values;
}

template <typename T>
T reduced(ReduceOp op, int world, std::size_t i) {
  std::vector<T> column;
  for (int rank = 0; rank < world; ++rank) column.push_back(element<T>(rank, i));
  switch (op) {
    case ReduceOp::Sum:
      return std::accumulate(column.begin(), column.end(), T(0));
    case ReduceOp::Avg:
      return static_cast<T>(std::accumulate(column.begin(), column.end(), T(0)) / static_cast<T>(world));
    case ReduceOp::Prod:
      return std::accumulate(column.begin(), column.end(), T(1), [](T a, T b) { return static_cast<T>(a * b); });
    case ReduceOp::Min:
      return *std::min_element(column.begin(), column.end());
    case ReduceOp::Max:
      return *std::max_element(column.begin(), column.end());
    case ReduceOp::BAnd:
    case ReduceOp::BOr:
    case ReduceOp::BXor:
    case ReduceOp::User:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    return std::accumulate(column.begin() + 1, column.end(), column[0], [op](T a, T b) {
      return static_cast<T>(op == ReduceOp::BAnd ? a & b : op == ReduceOp::BOr ? a | b : a ^ b);
    });
  }
  return T();
}

inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Net net : {Net::Inproc, Net::Tcp, Net::Shm, Net::Mixed, Net::Tls})
    for (const int world : {1, 2, 3, 4, 5, 7, 8})
      if (test::kFullRun || (world != 5 && world != 7)) all.push_back({net, world, ""});
  for (const Net net : {Net::Inproc, Net::Tcp})
    for (const char* algorithm : {"direct", "bruck", "rabenseifner", "chain", "double_tree", "star"})
      for (const int world : {3, 6}) all.push_back({net, world, algorithm});
  for (const Net net : {Net::Tcp, Net::Shm})
    for (const char* algorithm : {"ring", "recursive_doubling"})
      for (const int world : {2, 3, 7}) all.push_back({net, world, algorithm});
  for (const char* algorithm : {"hierarchical", "hierarchical_split"}) {
    all.push_back({Net::Inproc, 5, algorithm});
    all.push_back({Net::Tcp, 6, algorithm, {0, 1, 0, 1, 1, 2}});
    all.push_back({Net::Tcp, 8, algorithm, {0, 0, 0, 0, 1, 1, 1, 1}});
  }
  for (const char* algorithm : {"hierarchical", "hierarchical_split"}) all.push_back({Net::Mixed, 7, algorithm});
  all.push_back({Net::MixedTls, 7, ""});
  return all;
}

}  // namespace tutti::comm
