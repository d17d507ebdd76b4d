// What the tests of failing processes share: a job of fault_rank.cc's ranks, and what its survivors must end with.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/support/stolen_time.h>

#include <chrono>
#include <string>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm::test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tutti::test::ExitStatus;
using tutti::test::Processes;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr milliseconds kSlower(3000);  // what sanitizers add to everything
#else
inline constexpr milliseconds kSlower(0);
#endif
inline constexpr milliseconds kNoticed = milliseconds(1000) + kSlower;  // after a death, and after a deadline
inline constexpr milliseconds kLong(60'000);
inline constexpr milliseconds kPatience(30'000);  // of the test, which hangs in no case

/// Whether a process may become another user's here: some containers forbid it, and then "mixed" cannot be played.
inline bool users_may_change() {
  static const bool may = [] {
    const auto ended = tutti::test::run_program({TUTTI_FAULT_RANK, "0", "nothing"}, {"TUTTI_FAULT_HOSTS=2", "RANK=2"});
    if (ended.status.code == 4) std::puts("mixed worlds are left out: no process may become another user's here");
    return ended.status.code != 4;
  }();
  return may;
}

/// Whether ranks can use UCX here, each as if it ran on a host of its own.
inline bool ucx_may_be_used() {
  static const std::string refusal = ucx_refusal();
  if (!refusal.empty()) std::printf("ucx is left out: %s\n", refusal.c_str());
  return refusal.empty() && users_may_change();
}

class Job {
 public:
  /// `transport`: "tcp" or "shm", by which the ranks shall talk; "mixed": shm between ranks 0 and 1, tcp to the others;
  /// "": as they like.
  Job(int count, milliseconds timeout, std::vector<std::string> scenario, const std::string& transport = "")
      : count_(count),
        processes_(
            {.command = command(timeout, std::move(scenario)), .count = count, .environment = environment(transport)}) {
  }

  Processes& processes() { return processes_; }
  const tutti::test::StolenTime& stolen() const { return stolen_; }

  void wait_for_all(const std::string& text) {
    for (int rank = 0; rank < count_; ++rank) wait_for(rank, text);
  }
  void wait_for(int rank, const std::string& text) {
    ASSERT_TRUE(processes_.wait_for_output(rank, text)) << "rank " << rank << " never said '" << text << "', but:\n"
                                                        << processes_.out(rank) << processes_.err(rank);
  }

  void wait_for_more_beats(int rank) {
    const std::string out = processes_.out(rank);
    const int beats = std::stoi(out.substr(out.rfind("beat ") + 5));
    wait_for(rank, "beat " + std::to_string(beats + 2) + "\n");
  }

  std::string address(int rank) const {
    const std::string out = processes_.out(rank);
    const auto begin = out.find("ready ") + 6;
    return out.substr(begin, out.find(' ', begin) - begin);
  }

  /// When the rank said that it did `what` ("leaving", "failure").
  steady_clock::time_point time_of(int rank, const std::string& what) {
    const std::string text = what + " at ";
    wait_for(rank, text);
    const std::string out = processes_.out(rank);
    const auto at = out.find(text);
    if (at == std::string::npos) return {};
    return steady_clock::time_point(steady_clock::duration(std::stoll(out.substr(at + text.size()))));
  }

  /// The rank ends by itself, with an error that it knows by `since` + `limit`, but for the time that nobody had;
  /// returns its text.
  std::string failure_of(int rank, steady_clock::time_point since, milliseconds limit) {
    const auto status = processes_.wait(rank, kPatience);
    const auto known = time_of(rank, "failure");
    EXPECT_LT(known - since - stolen_.between(since, known), limit) << "rank " << rank;
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
      const std::string own = first_cause(text.substr(text.find(": ") + 2));
      if (cause.empty()) cause = own;
      EXPECT_EQ(own, cause) << "rank " << rank << ": " << text;
    }
    return cause;
  }

  /// "rank 2 (host, pid 71, " of the rank, without the host.
  void expect_named(const std::string& text, int rank) const {
    expect_parts(text, {"rank " + std::to_string(rank) + " (",
                        ", pid " + std::to_string(processes_.pid(rank)) + ", " + address(rank) + ")"});
  }

 private:
  static std::vector<std::string> environment(const std::string& transport) {
    if (transport == "mixed") return {"TUTTI_TRANSPORT=auto", "TUTTI_FAULT_HOSTS=2"};
    if (transport == "ucx") return {"TUTTI_TRANSPORT=ucx", "TUTTI_FAULT_HOSTS=1", "UCX_TLS=tcp,self"};
    return {"TUTTI_TRANSPORT=" + (transport.empty() ? "auto" : transport)};
  }
  static std::vector<std::string> command(milliseconds timeout, std::vector<std::string> scenario) {
    scenario.insert(scenario.begin(), {TUTTI_FAULT_RANK, std::to_string(timeout.count())});
    return scenario;
  }

  const int count_;
  const tutti::test::StolenTime stolen_;
  Processes processes_;
};

}  // namespace tutti::comm::test
