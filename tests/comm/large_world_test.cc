// Worlds of many processes on one machine: they form in time, and open no more connections than their algorithms use.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/support/watchdog.h>
#include <tutti/tools/run/reserved_port.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
using tutti::test::ExitStatus;
using tutti::test::Processes;
using tutti::test::Watchdog;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kManyRanks = 32;
constexpr int kRanks = 40;
#else
constexpr int kManyRanks = 256;
constexpr int kRanks = 64;
#endif
constexpr std::chrono::seconds kLimit(60);

/// A world of tutti_world_rank, run to its end.
class World {
 public:
  World(int ranks, std::size_t count, std::vector<std::string> environment = {})
      : ranks_(ranks), processes_(options(ranks, count, std::move(environment))) {
    const auto start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < ranks; ++rank) {
      const auto status = processes_.wait(rank, kLimit);
      EXPECT_TRUE(status == (ExitStatus{false, 0}))
          << "rank " << rank << (status ? "" : " still runs") << ": " << processes_.out(rank) << processes_.err(rank);
      if (status != (ExitStatus{false, 0})) return;
    }
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  double seconds() const { return seconds_; }

  /// The number that a rank said after `word`; -1 if it did not.
  int said(int rank, const std::string& word) const {
    std::istringstream lines(processes_.out(rank));
    int number = -1;
    for (std::string first; lines >> first;) {
      if (first == word) lines >> number;
    }
    return number;
  }
  int most(const std::string& word) const {
    int most = 0;
    for (int rank = 0; rank < ranks_; ++rank) most = std::max(most, said(rank, word));
    return most;
  }

 private:
  static tutti::test::ProcessesOptions options(int ranks, std::size_t count, std::vector<std::string> environment) {
    raise_descriptor_limit(static_cast<std::size_t>(ranks) * 5 + 64, "this test");  // 2 pipes and up to 2 connections
    return {
        .command = {TUTTI_WORLD_RANK, std::to_string(count)}, .count = ranks, .environment = std::move(environment)};
  }

  int ranks_;
  Processes processes_;
  double seconds_ = 1e9;
};

void expect_in_time(const std::string& transport) {
  Watchdog watchdog(kLimit);
  const World world(kManyRanks, 1, {"TUTTI_TRANSPORT=" + transport});
  EXPECT_LT(world.seconds(), 20.0);
  testing::Test::RecordProperty("seconds", std::to_string(world.seconds()));
  testing::Test::RecordProperty("slowest_to_form_ms", world.most("formed"));
}

TEST(LargeWorld, FormsAndReducesInTime) { expect_in_time("auto"); }
TEST(LargeWorld, FormsAndReducesInTimeOverTcp) { expect_in_time("tcp"); }

TEST(LargeWorld, RankZeroMayServeTheStore) {
  Watchdog watchdog(kLimit);
  const tools::ReservedPort port("127.0.0.1");
  const World world(kRanks, 1,
                    {"TORCHELASTIC_USE_AGENT_STORE=", "TUTTI_STORE=tcp://127.0.0.1:" + std::to_string(port.port())});
  EXPECT_LT(world.seconds(), 30.0);
}

TEST(RankZero, LeavesLastWhereItServesTheStore) {
  Watchdog watchdog(kLimit);
  const tools::ReservedPort port("127.0.0.1");
  const auto connect = [&](int rank) {
    comm::World world;
    world.rank = world.local_rank = rank;
    world.world_size = world.local_world_size = 2;
    world.master_addr = "127.0.0.1";
    world.master_port = port.port();
    world.job_secret = "a secret of tests";
    return ProcessGroup::connect(world, {.timeout = std::chrono::seconds(30)});
  };
  std::atomic<bool> zero_has_left = false;
  std::thread zero([&] {
    connect(0)->shutdown();
    zero_has_left = true;
  });
  {
    const auto one = connect(1);
    one->shutdown();
    for (int i = 0; i < 2000; ++i) one->store()->add("still here", 1, soon());
    EXPECT_FALSE(zero_has_left);
  }
  zero.join();
}

TEST(WorldInAFile, FormsAgainAndAgainAndLeavesNothing) {
  Watchdog watchdog(kLimit);
  const TemporaryFolder folder;
  const std::string store = "TUTTI_STORE=file://" + folder.file("meet");
  for (int run = 0; run < 2; ++run) {
    const World world(8, 8 * 8192, {store});
    EXPECT_LT(world.seconds(), 30.0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(WorldInAFile, FileOfAnEarlierRunIsToldAtOnce) {
  Watchdog watchdog(kLimit);
  const TemporaryFolder folder;
  const FileStore earlier({.path = folder.file("meet"), .job_id = "last week", .rank = 0, .world_size = 2}, soon());
  Processes ranks(
      {.command = {TUTTI_WORLD_RANK, "1"}, .count = 2, .environment = {"TUTTI_STORE=file://" + folder.file("meet")}});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ranks.wait(rank, kLimit) == (ExitStatus{false, 1}));
    expect_parts(ranks.out(rank),
                 {"failed: the store file " + folder.file("meet") + " is stale", "it is of job \"last week\""});
  }
}

TEST(WorldInAFile, KilledRankIsNamedByAllOthers) {
  Watchdog watchdog(kLimit);
  const TemporaryFolder folder;
  constexpr int kCount = 4, kVictim = 2;
  Processes ranks({.command = {TUTTI_FAULT_RANK, "60000", "loop", "all_reduce"},
                   .count = kCount,
                   .environment = {"TUTTI_STORE=file://" + folder.path()}});
  for (int rank = 0; rank < kCount; ++rank) ASSERT_TRUE(ranks.wait_for_output(rank, "beat 1")) << ranks.out(rank);
  ranks.kill(kVictim, SIGKILL);
  for (int rank = 0; rank < kCount; ++rank) {
    if (rank == kVictim) continue;
    EXPECT_TRUE(ranks.wait(rank, std::chrono::seconds(15)) == (ExitStatus{false, 1})) << ranks.out(rank);
    expect_parts(ranks.out(rank), {"lost rank 2 (", ", pid " + std::to_string(ranks.pid(kVictim)) + ", "});
  }
}

/// Whom `rank` exchanges messages with when all call a barrier and all_reduces of 1 and of `count` int64, on this host.
std::set<int> peers_of(int rank, int ranks, std::size_t count) {
  Tuning tuning;  // as a group without a file has it
  if (ranks > allowed_processors()) tuning.processors = allowed_processors();
  const Tuning* const here = tuning.processors > 0 ? &tuning : nullptr;
  std::set<int> peers;
  const auto add = [&](OpKind op, std::size_t elements) {
    const Problem problem{.op = op, .rank = rank, .world_size = ranks, .count = elements};
    for (const Step& step : algorithms::select(problem, sizeof(std::int64_t), "", here).steps) {
      if (step.peer >= 0) peers.insert(step.peer);
    }
  };
  add(OpKind::Barrier, 0);
  add(OpKind::AllReduce, 1);
  add(OpKind::AllReduce, count);
  return peers;
}

TEST(LargeWorld, OpensOnlyTheConnectionsThatItsAlgorithmsUse) {
  Watchdog watchdog(kLimit);
  const std::size_t count = std::size_t{kRanks} * 8192;  // long enough for the ring
  const World world(kRanks, count, {"TUTTI_TRANSPORT=tcp"});
  for (int rank = 0; rank < kRanks; ++rank) {
    const int connections = world.said(rank, "connections");
    const auto peers = static_cast<int>(peers_of(rank, kRanks, count).size());
    EXPECT_GT(connections, 0) << "rank " << rank;
    EXPECT_LE(connections, peers) << "rank " << rank;
    EXPECT_LT(2 * peers, kRanks) << "rank " << rank << ": the algorithms themselves use too many";
  }
}

}  // namespace
}  // namespace tutti::comm
