// Groups that outlive main(), and several of one process, one after the other or at once, in jobs started by hand.
#include <gtest/gtest.h>
#include <tutti/tests/support/run_processes.h>

#include <string>
#include <tuple>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using tutti::test::ExitStatus;
using tutti::test::Processes;

using HowAndWhat = std::tuple<std::string, std::string>;

class Lifetimes : public testing::TestWithParam<HowAndWhat> {
 protected:
  /// Two ranks, started as `tutti run` does, or by hand at `port`.
  static void expect_to_end_well(int port = 0) {
    const auto& [how, what] = GetParam();
    const std::string by_hand =
        "unset TUTTI_STORE TORCHELASTIC_USE_AGENT_STORE; export MASTER_PORT=" + std::to_string(port) + ";";
    Processes ranks(
        {.command = {"sh", "-c", (port > 0 ? by_hand : "") + how + " exec \"$0\" " + what, TUTTI_LIFETIME_RANK},
         .count = 2});
    for (const int rank : {0, 1}) {
      const auto status = ranks.wait(rank);
      EXPECT_TRUE(status && *status == (ExitStatus{false, 0})) << "rank " << rank << ": " << ranks.err(rank);
      EXPECT_EQ(ranks.err(rank), "");
    }
  }
};

constexpr char kMemory[] = "TUTTI_TRANSPORT=shm", kTcp[] = "TUTTI_TRANSPORT=tcp";
constexpr char kTls[] = "TUTTI_ENCRYPT=1 TUTTI_TRANSPORT=tcp";

class OutliveMain : public Lifetimes {};

TEST_P(OutliveMain, AndEndAsWithoutShutdown) { expect_to_end_well(); }

INSTANTIATE_TEST_SUITE_P(Groups, OutliveMain,
                         testing::Combine(testing::Values(kMemory, kTcp, kTls),
                                          testing::Values("global", "static", "leaked")));

class SeveralGroups : public Lifetimes {};

TEST_P(SeveralGroups, ShareTheStoreThatRankZeroServes) {
  const int port = TcpStoreServer(test::server_options()).port();  // free again
  expect_to_end_well(port);
}

TEST_P(SeveralGroups, ShareTheLaunchersStore) { expect_to_end_well(); }

INSTANTIATE_TEST_SUITE_P(Groups, SeveralGroups,
                         testing::Combine(testing::Values(kMemory, kTcp),
                                          testing::Values("together", "shut_down", "ended", "failed")));

INSTANTIATE_TEST_SUITE_P(Many, SeveralGroups,
                         testing::Combine(testing::Values("ulimit -Sn 256; TUTTI_TRANSPORT=shm",
                                                          "ulimit -Sn 256; TUTTI_TRANSPORT=tcp"),
                                          testing::Values("many")));

TEST(ManyGroups, BeyondTheHardLimitAreRefusedWithTheCure) {
  Processes ranks({.command = {"sh", "-c", "ulimit -n 100; exec \"$0\" many", TUTTI_LIFETIME_RANK}, .count = 2});
  for (const int rank : {0, 1}) {  // one has too few first; the other misses it
    const auto status = ranks.wait(rank);
    EXPECT_TRUE(status && *status == (ExitStatus{false, 1}));
  }
  const std::string said = ranks.err(0) + ranks.err(1);
  test::expect_parts(said, {" needs ", "but this process may have 100 (hard limit 100): raise RLIMIT_NOFILE"});
}

}  // namespace
}  // namespace tutti::comm
