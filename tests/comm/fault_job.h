// What the tests of failing processes share: a job of fault_rank.cc's ranks, and what its survivors must end with.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tests/support/run_processes.h>

#include <algorithm>
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
inline constexpr milliseconds kNoticed = milliseconds(2000) + kSlower;    // a death; 1 s where nothing else runs
inline constexpr milliseconds kDiagnosed = milliseconds(1500) + kSlower;  // after a deadline
inline constexpr milliseconds kLong(60'000);

class Job {
 public:
  /// `transport`: "tcp" or "shm", by which the ranks shall talk; "": as they like.
  Job(int count, milliseconds timeout, std::vector<std::string> scenario, const std::string& transport = "")
      : count_(count),
        processes_({.command = command(timeout, std::move(scenario)),
                    .count = count,
                    .environment = {"TUTTI_TRANSPORT=" + (transport.empty() ? "auto" : transport)}}) {}

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

}  // namespace tutti::comm::test
