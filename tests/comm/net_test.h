// A fixture of tests that run over each of several nets, with ranks as threads.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tests/support/run_ranks.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

using test::Net;
using test::run_ranks;
using test::run_ranks_to_failure;
using test::RunRanksOptions;

inline constexpr Net kNets[] = {Net::Inproc, Net::Tcp, Net::Shm, Net::Mixed, Net::Tls};

/// The text that a rank ended with; "" for success.
inline std::string what(const std::optional<Error>& outcome) { return outcome ? outcome->what() : ""; }

class OverNets : public testing::TestWithParam<Net> {
 protected:
  using Milliseconds = std::chrono::milliseconds;
  using Outcomes = std::vector<std::optional<Error>>;

  static void run(int ranks, Milliseconds timeout, const test::RankBody& body) {
    run_ranks(ranks, body, {.net = GetParam(), .group = {.timeout = timeout}});
  }
  static void run(int ranks, const test::RankBody& body) { run_ranks(GetParam(), ranks, body); }

  static Outcomes run_to_failure(int ranks, Milliseconds timeout, const test::RankBody& body) {
    return run_ranks_to_failure(ranks, body, {.net = GetParam(), .group = {.timeout = timeout}});
  }
  static Outcomes run_to_failure(int ranks, const test::RankBody& body) {
    return run_ranks_to_failure(GetParam(), ranks, body);
  }
};

}  // namespace tutti::comm
