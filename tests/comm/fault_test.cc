// Ranks that die, freeze, stay away or disagree, as real processes: all others end in time, with the same first cause,
// which names the culprit.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tests/support/run_processes.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tutti::test::ExitStatus;
using tutti::test::Processes;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr milliseconds kSlower(3000);  // what sanitizers add to everything
#else
constexpr milliseconds kSlower(0);
#endif
constexpr milliseconds kNoticed = milliseconds(2000) + kSlower;    // a death; 1 s where nothing else runs
constexpr milliseconds kDiagnosed = milliseconds(1500) + kSlower;  // after a deadline
constexpr milliseconds kLong(60'000);

class Job {
 public:
  Job(int count, milliseconds timeout, std::vector<std::string> scenario)
      : count_(count), processes_({.command = command(timeout, std::move(scenario)), .count = count}) {}

  Processes& processes() { return processes_; }

  void wait_for_all(const std::string& text) {
    for (int rank = 0; rank < count_; ++rank) wait_for(rank, text);
  }
  void wait_for(int rank, const std::string& text) {
    ASSERT_TRUE(processes_.wait_for_output(rank, text)) << "rank " << rank << " never said '" << text << "', but:\n"
                                                        << processes_.out(rank) << processes_.err(rank);
  }

  std::string address(int rank) const {
    const std::string out = processes_.out(rank);
    const auto begin = out.find("ready ") + 6;
    return out.substr(begin, out.find(' ', begin) - begin);
  }

  /// Waits until `since` + `limit` for the rank to end by itself, with an error; returns its text.
  std::string failure_of(int rank, steady_clock::time_point since, milliseconds limit) {
    const auto left = std::chrono::duration_cast<milliseconds>(since + limit - steady_clock::now());
    const auto status = processes_.wait(rank, std::max(left, milliseconds(0)));
    const std::string out = processes_.out(rank);
    if (!status) {
      ADD_FAILURE() << "rank " << rank << " still runs; it said:\n" << out << processes_.err(rank);
    } else {
      EXPECT_TRUE(*status == (ExitStatus{false, 1})) << "rank " << rank << " said:\n" << out << processes_.err(rank);
    }
    const auto at = out.find("failed after ");
    return at == std::string::npos ? std::string() : out.substr(at);
  }

  /// The first cause that all ranks but `except` end with by `since` + `limit`; they must agree on it.
  std::string common_cause(int except, steady_clock::time_point since, milliseconds limit) {
    std::string cause;
    for (int rank = 0; rank < count_; ++rank) {
      if (rank == except) continue;
      const std::string text = failure_of(rank, since, limit);
      const auto at = text.find("first cause: ");
      const std::string own = at != std::string::npos ? text.substr(at + 13) : text.substr(text.find(": ") + 2);
      if (cause.empty()) cause = own;
      EXPECT_EQ(own, cause) << "rank " << rank << ": " << text;
    }
    return cause;
  }

  /// "rank 2 (host, pid 71, " of the rank, without the host.
  void expect_named(const std::string& text, int rank) const {
    expect_contains(text, "rank " + std::to_string(rank) + " (");
    expect_contains(text, ", pid " + std::to_string(processes_.pid(rank)) + ", " + address(rank) + ")");
  }

 private:
  static std::vector<std::string> command(milliseconds timeout, std::vector<std::string> scenario) {
    scenario.insert(scenario.begin(), {TUTTI_FAULT_RANK, std::to_string(timeout.count())});
    return scenario;
  }

  const int count_;
  Processes processes_;
};

class Loops : public testing::TestWithParam<const char*> {};

TEST_P(Loops, AKilledRankIsNamedByAllOthersAtOnce) {
  for (const int victim : {0, 1, 3}) {
    SCOPED_TRACE("victim " + std::to_string(victim));
    Job job(4, kLong, {"loop", GetParam()});
    job.wait_for_all("beat 1");
    const auto start = steady_clock::now();
    job.processes().kill(victim, SIGKILL);
    const std::string cause = job.common_cause(victim, start, kNoticed);
    expect_contains(cause, "lost ");
    job.expect_named(cause, victim);
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Loops,
                         testing::Values("all_reduce", "all_reduce_large", "broadcast", "reduce", "gather",
                                         "all_gather", "scatter", "barrier", "async", "p2p"),
                         [](const auto& operation) { return std::string(operation.param); });

class FrozenRank : public testing::TestWithParam<const char*> {};

TEST_P(FrozenRank, IsNamedByAllOthersAtTheDeadline) {
  const milliseconds timeout(2000);
  const int victim = 2;
  Job job(4, timeout, {"loop", GetParam()});
  job.wait_for_all("beat 1");
  const auto start = steady_clock::now();
  job.processes().kill(victim, SIGSTOP);
  const std::string cause = job.common_cause(victim, start, timeout + kDiagnosed);
  EXPECT_GE(steady_clock::now() - start, timeout - milliseconds(200));
  expect_contains(cause, "timed out after");
  job.expect_named(cause, victim);
}

INSTANTIATE_TEST_SUITE_P(Operations, FrozenRank, testing::Values("all_reduce", "broadcast", "p2p"),
                         [](const auto& operation) { return std::string(operation.param); });

TEST(Fault, ARankThatExitsBeforeTheFirstCollectiveIsNamedAtOnce) {
  for (const int victim : {0, 1, 2}) {
    SCOPED_TRACE("victim " + std::to_string(victim));
    Job job(3, kLong, {"exit-before-first", std::to_string(victim)});
    job.wait_for_all("ready");
    const auto status = job.processes().wait(victim);
    EXPECT_TRUE(status && *status == (ExitStatus{false, 0}));
    job.expect_named(job.common_cause(victim, steady_clock::now(), kNoticed), victim);
  }
}

TEST(Fault, ARankThatNeverConnectsIsNamedWhenTheGroupDoesNotForm) {
  const milliseconds timeout(1500);
  const auto start = steady_clock::now();
  Job job(3, timeout, {"exit-before-connect", "1"});
  for (const int rank : {0, 2}) {
    const std::string text = job.failure_of(rank, start, timeout + kDiagnosed + milliseconds(500));
    expect_contains(text, "group 'world' did not form within 1.5 s: no sign of rank(s) 1 at the store");
  }
}

TEST(Fault, ARankThatExitsWhileTheGroupFormsIsNamedAtOnce) {
  Job job(3, kLong, {"exit-while-forming", "1"});
  EXPECT_TRUE(job.processes().wait(1).has_value());
  const auto start = steady_clock::now();
  for (const int rank : {0, 2}) {
    const std::string text = job.failure_of(rank, start, kNoticed);
    expect_contains(text, "group 'world' cannot form: lost rank 1: ");
    expect_contains(text, std::to_string(job.processes().pid(1)));
  }
}

TEST(Fault, ARankWithAnotherSecretSaysSoAtOnce) {
  const auto start = steady_clock::now();
  Job job(3, kLong, {"wrong-secret", "2"});
  const std::string text = job.failure_of(2, start, kNoticed);
  expect_contains(text, "another job secret");
  expect_contains(text, "TUTTI_JOB_SECRET");
}

TEST(Fault, DisagreementsNameBothSidesValuesOnEveryRank) {
  const std::vector<std::vector<std::string>> disagreements = {
      {"operation", "all_reduce seq 1 (sum float32 x 10000)", "broadcast seq 1 (float32 x 10000, root 1)"},
      {"count", "all_reduce seq 1 (sum float32 x 10000)", "all_reduce seq 1 (sum float32 x 9999)"},
      {"dtype", "all_reduce seq 1 (sum float32 x 10000)", "all_reduce seq 1 (sum int32 x 10000)"},
      {"operator", "all_reduce seq 1 (sum float32 x 10000)", "all_reduce seq 1 (max float32 x 10000)"},
      {"root", "broadcast seq 1 (float32 x 10000, root 0)", "broadcast seq 1 (float32 x 10000, root 1)"}};
  for (const auto& disagreement : disagreements) {
    SCOPED_TRACE(disagreement[0]);
    Job job(3, kLong, {"mismatch", disagreement[0]});
    job.wait_for_all("ready");
    const std::string cause = job.common_cause(-1, steady_clock::now(), kNoticed);
    expect_contains(cause, disagreement[1]);
    expect_contains(cause, disagreement[2]);
    expect_contains(cause, "rank 1");
  }
}

TEST(Fault, GarbageOnThePortsIsLoggedAndTheLoopGoesOn) {
  CapturedLog store_log;  // the store server runs in this process
  Job job(3, kLong, {"loop", "all_reduce"});
  job.wait_for_all("beat 1\n");
  const std::string address = job.address(1);
  const auto data_port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  for (const std::uint16_t port : {data_port, job.processes().store_port()}) {
    RawConnection stranger(port);
    stranger.send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(stranger.closed_by_peer());
  }
  EXPECT_TRUE(job.processes().wait_for_error(1, "47 45 54 20")) << job.processes().err(1);
  store_log.wait_for("47 45 54 20");
  for (int rank = 0; rank < 3; ++rank) {
    const std::string out = job.processes().out(rank);
    const int beats = std::stoi(out.substr(out.rfind("beat ") + 5));
    job.wait_for(rank, "beat " + std::to_string(beats + 2) + "\n");
  }
}

TEST(Fault, AStoreThatDiesDuringALongWaitIsNamed) {
  Job job(3, kLong, {"sleep-in-user-code", "2"});
  job.wait_for(2, "sleeping");
  job.wait_for_all("ready");
  const std::string port = std::to_string(job.processes().store_port());
  const auto start = steady_clock::now();
  job.processes().stop_store();
  for (const int rank : {0, 1})
    expect_contains(job.failure_of(rank, start, kNoticed), "the store server at 127.0.0.1:" + port + " is gone");
}

TEST(Fault, AFrozenRankThatServesTheStoreMayGoOn) {
  Job job(3, kLong, {"own-store", "all_reduce"});
  job.wait_for_all("beat 1");
  job.processes().kill(0, SIGSTOP);
  EXPECT_FALSE(job.processes().wait(1, milliseconds(3500)).has_value()) << job.processes().out(1);
  EXPECT_FALSE(job.processes().wait(2, milliseconds(0)).has_value()) << job.processes().out(2);
  const std::string out = job.processes().out(0);
  const int beats = std::stoi(out.substr(out.rfind("beat ") + 5));
  job.processes().kill(0, SIGCONT);
  for (int rank = 0; rank < 3; ++rank) job.wait_for(rank, "beat " + std::to_string(beats + 2) + "\n");
}

TEST(Fault, AFrozenRankThatServesTheStoreIsNamedAtTheDeadline) {
  const milliseconds timeout(2000);
  Job job(2, timeout, {"own-store", "all_reduce"});
  job.wait_for_all("beat 1");
  const auto start = steady_clock::now();
  job.processes().kill(0, SIGSTOP);
  // The store's silence costs two more waits: for the diagnosis, and for the report of the failure.
  const std::string text = job.failure_of(1, start, timeout + kDiagnosed + milliseconds(3000));
  EXPECT_GE(steady_clock::now() - start, timeout - milliseconds(200));
  expect_contains(text, "timed out after");
  job.expect_named(text, 0);
  expect_contains(text, "the store cannot be asked why");
}

TEST(Fault, ADeadRankThatServedTheStoreIsStillNamed) {
  Job job(3, kLong, {"own-store", "all_reduce"});
  job.wait_for_all("beat 1");
  const auto start = steady_clock::now();
  job.processes().kill(0, SIGKILL);
  int named = 0;
  for (const int rank : {1, 2}) {
    const std::string text = job.failure_of(rank, start, kNoticed);
    expect_contains(text, "the store server at 127.0.0.1:");
    if (text.find(", pid " + std::to_string(job.processes().pid(0)) + ",") != std::string::npos) ++named;
  }
  EXPECT_GE(named, 1);
}

}  // namespace
}  // namespace tutti::comm
