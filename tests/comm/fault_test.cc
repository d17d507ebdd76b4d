// Ranks that die, freeze, stay away or disagree, as real processes: all others end in time, with the same first cause,
// which names the culprit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "fault_job.h"

namespace tutti::comm {
namespace {

using namespace test;

/// The others are short, and go over TCP also where there is UCX.
bool sends_long_payloads(const std::string& operation) {
  return operation == "all_reduce_large" || operation == "long_blocks" || operation == "p2p" || operation == "turns";
}

class Loops : public testing::TestWithParam<const char*> {};

TEST_P(Loops, AKilledRankIsNamedByAllOthersAtOnce) {
  for (const std::string transport : {"tcp", "shm", "mixed", "ucx"}) {
    if (transport == "mixed" && !users_may_change()) continue;
    if (transport == "ucx" && !(sends_long_payloads(GetParam()) && ucx_may_be_used())) continue;
    for (const int victim : {0, 1, 2, 3}) {
      SCOPED_TRACE(transport + ", victim " + std::to_string(victim));
      Job job(4, kLong, {"loop", GetParam()}, transport);
      job.wait_for_all("beat 1");
      const std::string name = transport == "mixed" ? "shm+tcp" : transport == "ucx" ? "tcp+ucx" : transport;
      expect_parts(job.processes().out(0), {" via " + name + "\n"});
      const auto start = steady_clock::now();
      job.processes().kill(victim, SIGKILL);
      const std::string cause = job.common_cause(victim, start, kNoticed);
      expect_parts(cause, {"lost "});
      job.expect_named(cause, victim);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Loops,
                         testing::Values("all_reduce", "all_reduce_large", "broadcast", "reduce", "gather",
                                         "all_gather", "scatter", "reduce_scatter", "all_to_all", "gather_v",
                                         "scatter_v", "all_gather_v", "reduce_scatter_v", "all_to_all_v", "registered",
                                         "registered_blocks", "short_blocks", "long_blocks", "turns", "barrier",
                                         "async", "sendrecv", "p2p"),
                         [](const auto& operation) { return std::string(operation.param); });

/// All other ranks of a job that runs `operation` end with the victim's name: at once when it is killed, and at the
/// deadline of `timeout` when it is frozen.
void expect_named_by_all(int ranks, const std::string& operation, const std::string& transport, int victim,
                         std::optional<milliseconds> timeout) {
  SCOPED_TRACE(operation + ", victim " + std::to_string(victim) + (timeout ? ", frozen" : ", killed"));
  const milliseconds limit = timeout ? *timeout + kSlower : kLong;
  Job job(ranks, limit, {"loop", operation}, transport);
  job.wait_for_all("beat 2");
  const auto start = steady_clock::now();
  job.processes().kill(victim, timeout ? SIGSTOP : SIGKILL);
  const std::string cause = job.common_cause(victim, start, timeout ? limit + kNoticed : kNoticed);
  expect_parts(cause, {timeout ? "timed out after" : "lost "});
  job.expect_named(cause, victim);
}

TEST(Fault, ARankThatSendsLongBlocksOrMessagesIsNamedWhenItIsKilledOrFrozen) {
  for (const std::string transport : {"shm", "ucx"})
    for (const char* operation : {"long_blocks", "p2p"})
      for (const int victim : {0, 1}) {
        if (transport == "ucx" && !ucx_may_be_used()) continue;
        expect_named_by_all(2, operation, transport, victim, std::nullopt);
        expect_named_by_all(2, operation, transport, victim, milliseconds(500));
      }
}

class EightRanksOverTcp : public testing::TestWithParam<const char*> {};

TEST_P(EightRanksOverTcp, AKilledRankIsNamedByAllOthersAtOnce) {
  for (const int victim : {0, 1, 4, 7}) expect_named_by_all(8, GetParam(), "tcp", victim, std::nullopt);
}

TEST_P(EightRanksOverTcp, AFrozenRankIsNamedByAllOthersAtTheDeadline) {
  for (const int victim : {0, 3, 6}) expect_named_by_all(8, GetParam(), "tcp", victim, milliseconds(800));
}

INSTANTIATE_TEST_SUITE_P(Operations, EightRanksOverTcp, testing::Values("all_reduce", "barrier"),
                         [](const auto& operation) { return std::string(operation.param); });

TEST(Fault, AKilledRankEndsItsSubGroupAndLeavesTheOthersAlone) {
  for (const char* transport : {"tcp", "shm"}) {
    for (const int victim : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(transport) + ", victim " + std::to_string(victim));
      Job job(4, kLong, {"halves", "all_reduce"}, transport);
      job.wait_for_all("beat 1");
      const auto start = steady_clock::now();
      job.processes().kill(victim, SIGKILL);
      const std::string text = job.failure_of((victim + 2) % 4, start, kNoticed);
      expect_parts(text, {"lost rank " + std::to_string(victim / 2) + " (rank " + std::to_string(victim) + " of the",
                          ", pid " + std::to_string(job.processes().pid(victim)) + ","});
      for (const int outside : {(victim + 1) % 4, (victim + 3) % 4}) job.wait_for_more_beats(outside);
    }
  }
}

TEST(Fault, ARankThatExitsBeforeTheFirstCollectiveOrInTheMiddleIsNamedAtOnce) {
  for (const std::string when : {"exit-before-first", "exit-in-the-middle"})
    for (const int victim : {0, 1, 2}) {
      SCOPED_TRACE(when + ", victim " + std::to_string(victim));
      Job job(3, kLong, {when, std::to_string(victim)});
      job.wait_for_all("ready");
      const auto status = job.processes().wait(victim);
      EXPECT_TRUE(status && *status == (ExitStatus{false, 0}));
      job.expect_named(job.common_cause(victim, job.time_of(victim, "leaving"), kNoticed), victim);
    }
}

TEST(Fault, ARankThatNeverConnectsIsNamedWhenTheGroupDoesNotForm) {
  const milliseconds timeout(1500);
  const auto start = steady_clock::now();
  Job job(3, timeout, {"exit-before-connect", "1"});
  for (const int rank : {0, 2}) {
    const std::string text = job.failure_of(rank, start, timeout + kNoticed + milliseconds(500));
    expect_parts(text, {"group 'world' did not form within 1.5 s: no sign of rank(s) 1 at the store"});
  }
}

TEST(Fault, ARankThatExitsWhileTheGroupFormsIsNamedAtOnce) {
  Job job(3, kLong, {"exit-while-forming", "1"});
  EXPECT_TRUE(job.processes().wait(1).has_value());
  const auto start = job.time_of(1, "leaving");
  for (const int rank : {0, 2}) {
    const std::string text = job.failure_of(rank, start, kNoticed);
    expect_parts(text, {"group 'world' cannot form: lost rank 1: ", std::to_string(job.processes().pid(1))});
  }
}

TEST(Fault, ARankWithAnotherSecretSaysSoAtOnce) {
  const auto start = steady_clock::now();
  Job job(3, kLong, {"wrong-secret", "2"});
  const std::string text = job.failure_of(2, start, kNoticed);
  expect_parts(text, {"another job secret", "TUTTI_JOB_SECRET"});
}

TEST(Fault, AStoreThatDiesDuringALongWaitIsNamed) {
  Job job(3, kLong, {"sleep-in-user-code", "2"});
  job.wait_for(2, "sleeping");
  job.wait_for_all("ready");
  const std::string port = std::to_string(job.processes().store_port());
  const auto start = steady_clock::now();
  job.processes().stop_store();
  for (const int rank : {0, 1})
    expect_parts(job.failure_of(rank, start, kNoticed), {"the store server at 127.0.0.1:" + port + " is gone"});
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
  const std::string text = job.failure_of(1, start, timeout + kNoticed + milliseconds(3000));
  EXPECT_GE(steady_clock::now() - start, timeout - milliseconds(200));
  expect_parts(text, {"timed out after"});
  job.expect_named(text, 0);
  expect_parts(text, {"the store cannot be asked why"});
}

TEST(Fault, ADeadRankThatServedTheStoreIsStillNamed) {
  Job job(3, kLong, {"own-store", "all_reduce"});
  job.wait_for_all("beat 1");
  const auto start = steady_clock::now();
  job.processes().kill(0, SIGKILL);
  int named = 0;
  for (const int rank : {1, 2}) {
    const std::string text = job.failure_of(rank, start, kNoticed);
    expect_parts(text, {"the store server at 127.0.0.1:"});
    if (text.find(", pid " + std::to_string(job.processes().pid(0)) + ",") != std::string::npos) ++named;
  }
  EXPECT_GE(named, 1);
}

}  // namespace
}  // namespace tutti::comm
