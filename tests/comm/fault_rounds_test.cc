// Ranks that freeze or disagree and live on: every rank ends with the same first cause, in time, leaves nothing open,
// and the same processes then form the next group. One job plays many rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fault_job.h"

namespace tutti::comm {
namespace {

using namespace test;

/// What lies in /dev/shm and is Tutti's.
std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
    if (entry.path().filename().string().find("tutti") != std::string::npos) names.insert(entry.path().filename());
  return names;
}

class Rounds {
 public:
  Rounds(int count, milliseconds timeout, std::vector<std::string> rounds, const std::string& transport = "")
      : count_(count), job_(count, timeout, scenario(std::move(rounds)), transport) {}

  Job& job() { return job_; }

  /// What follows `text` in the rank's output, up to the end of the line; waits until `until`.
  std::string line_after(int rank, const std::string& text, steady_clock::time_point until) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    EXPECT_TRUE(job_.processes().wait_for_output(rank, text, std::max(left, milliseconds(0))))
        << "rank " << rank << " has not said '" << text << "', but:\n"
        << job_.processes().out(rank) << job_.processes().err(rank);
    const std::string out = job_.processes().out(rank);
    const auto at = out.find(text);
    if (at == std::string::npos) return {};
    const auto begin = at + text.size();
    return out.substr(begin, out.find('\n', begin) - begin);
  }

  /// How the rank's round ended, by `until`; it must have left nothing open.
  std::string end_of(int rank, int round, steady_clock::time_point until) {
    const std::string left = line_after(rank, "round " + std::to_string(round) + " left ", until);
    const std::string nothing = "0 descriptors open and ended: ";
    EXPECT_EQ(left.rfind(nothing, 0), 0u) << "rank " << rank << ": " << left;
    return left.size() > nothing.size() ? left.substr(nothing.size()) : "";
  }

  /// When the rank said that it did `what` ("calling", "failure") in the round.
  steady_clock::time_point time_of(int rank, int round, const std::string& what) {
    const std::string at =
        line_after(rank, "round " + std::to_string(round) + " " + what + " at ", steady_clock::now() + kPatience);
    return steady_clock::time_point(steady_clock::duration(at.empty() ? 0 : std::stoll(at)));
  }

  /// The first cause on which all ranks but `except` agree.
  std::string common_cause(int except, int round, steady_clock::time_point until) {
    std::string cause;
    for (int rank = 0; rank < count_; ++rank) {
      if (rank == except) continue;
      const std::string text = end_of(rank, round, until);
      const std::string own = first_cause(text);
      if (cause.empty()) cause = own;
      EXPECT_EQ(own, cause) << "rank " << rank;
    }
    return cause;
  }

  /// "rank 2 (host, pid 71, address" of the round's group, without the host.
  void expect_named(const std::string& text, int rank, int round) {
    const std::string ready = "round " + std::to_string(round) + " ready ";
    const std::string published = line_after(rank, ready, steady_clock::now());
    expect_parts(text,
                 {"rank " + std::to_string(rank) + " (", ", pid " + std::to_string(job_.processes().pid(rank)) + ", " +
                                                             published.substr(0, published.find(' ')) + ")"});
  }

  void expect_good_end() {
    for (int rank = 0; rank < count_; ++rank) {
      const auto status = job_.processes().wait(rank);
      EXPECT_TRUE(status && *status == (ExitStatus{false, 0})) << job_.processes().out(rank);
    }
    EXPECT_EQ(shared_memory_files(), files_before_);
  }

 private:
  static std::vector<std::string> scenario(std::vector<std::string> rounds) {
    rounds.insert(rounds.begin(), "rounds");
    return rounds;
  }

  const int count_;
  const std::set<std::string> files_before_ = shared_memory_files();
  Job job_;
};

class FrozenRank : public testing::TestWithParam<std::vector<const char*>> {};

TEST_P(FrozenRank, IsNamedByAllOthersAtTheDeadlineAndMayGoOnInANewGroup) {
  const milliseconds timeout = milliseconds(1000) + kSlower;
  const auto soon_enough = [] { return steady_clock::now() + milliseconds(20'000); };
  std::vector<std::string> rounds;
  for (const char* operation : GetParam()) rounds.push_back(std::string("freeze ") + operation);
  // Two jobs at once, since most of the time is waiting.
  Rounds tcp(4, timeout, rounds, "tcp"), shm(4, timeout, rounds, "shm");
  for (int round = 1; round <= static_cast<int>(rounds.size()); ++round) {
    SCOPED_TRACE(rounds[static_cast<std::size_t>(round) - 1]);
    const int victim = round % 4;
    for (Rounds* job : {&tcp, &shm})
      for (int rank = 0; rank < 4; ++rank)  // it is under way
        job->line_after(rank, "round " + std::to_string(round) + " beat 1", soon_enough());
    const auto start = steady_clock::now();
    for (Rounds* job : {&tcp, &shm}) job->job().processes().kill(victim, SIGSTOP);
    for (Rounds* job : {&tcp, &shm}) {
      SCOPED_TRACE(job == &tcp ? "tcp" : "shm");
      const std::string cause = job->common_cause(victim, round, start + kPatience);
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == victim) continue;
        const auto known = job->time_of(rank, round, "failure");
        const auto took = known - start - job->job().stolen().between(start, known);
        EXPECT_GE(known - start, timeout - milliseconds(200)) << "rank " << rank;
        EXPECT_LT(took, timeout + kNoticed) << "rank " << rank;
      }
      expect_parts(cause, {"timed out after"});
      job->expect_named(cause, victim, round);
    }
    for (Rounds* job : {&tcp, &shm}) job->job().processes().kill(victim, SIGCONT);
    // What the victim finds out by itself is as good: it had no part in naming the cause.
    for (Rounds* job : {&tcp, &shm}) EXPECT_FALSE(job->end_of(victim, round, steady_clock::now() + kPatience).empty());
  }
  tcp.expect_good_end();
  shm.expect_good_end();
}

using Names = std::vector<const char*>;

INSTANTIATE_TEST_SUITE_P(Operations, FrozenRank,
                         testing::Values(Names{"all_reduce", "broadcast", "p2p", "gather"},
                                         Names{"reduce_scatter", "all_to_all", "sendrecv", "scatter_v"},
                                         Names{"all_gather", "reduce", "barrier", "gather_v", "turns"},
                                         Names{"all_reduce_large", "scatter", "all_gather_v", "async", "short_blocks"},
                                         Names{"registered", "reduce_scatter_v", "all_to_all_v", "registered_blocks"}),
                         [](const auto& names) { return std::string(names.param.front()) + "_and_others"; });

struct Disagreement {
  std::string what;
  std::string most;  // what ranks 0 and 2 called
  std::string odd;   // what rank 1 called
};

std::vector<Disagreement> disagreements_of(std::size_t count) {
  const std::string n = std::to_string(count), less = std::to_string(count - 1), half = std::to_string(count / 2);
  const std::string sum = "all_reduce seq 1 (sum float32 x " + n + ")";
  const std::string with_counts =
      "all_gather_v seq 1 (float32 x " + std::to_string(3 * count) + ", checksum of counts ";
  return {{"operation", sum, "broadcast seq 1 (float32 x " + n + ", root 1)"},
          {"order", sum, "barrier seq 1"},
          {"count", sum, "all_reduce seq 1 (sum float32 x " + less + ")"},
          {"dtype", sum, "all_reduce seq 1 (sum int32 x " + n + ")"},
          {"operator", sum, "all_reduce seq 1 (max float32 x " + n + ")"},
          {"root", "broadcast seq 1 (float32 x " + n + ", root 0)", "broadcast seq 1 (float32 x " + n + ", root 1)"},
          {"counts", with_counts, with_counts},
          {"block", "all_to_all seq 1 (float32 x " + n + ")", "all_to_all seq 1 (float32 x " + half + ")"}};
}

class Disagreements : public testing::TestWithParam<std::tuple<const char*, std::size_t>> {};

TEST_P(Disagreements, NameBothSidesValuesOnEveryRank) {
  const auto [transport, count] = GetParam();
  if (std::string(transport) == "ucx" && !ucx_may_be_used()) GTEST_SKIP();
  const std::vector<Disagreement> disagreements = disagreements_of(count);
  std::vector<std::string> rounds;
  for (const Disagreement& disagreement : disagreements)
    rounds.push_back("differ " + std::to_string(count) + " " + disagreement.what);
  Rounds differing(3, kLong, rounds, transport);
  for (std::size_t i = 0; i < disagreements.size(); ++i) {
    SCOPED_TRACE(disagreements[i].what);
    const int round = static_cast<int>(i) + 1;
    const std::string cause = differing.common_cause(-1, round, steady_clock::now() + kPatience);
    // All have called what they call within a moment of being ready; the last one's call is the fault.
    steady_clock::time_point called{};
    for (int rank = 0; rank < 3; ++rank) called = std::max(called, differing.time_of(rank, round, "calling"));
    for (int rank = 0; rank < 3; ++rank) {
      const auto known = differing.time_of(rank, round, "failure");
      EXPECT_LT(known - called - differing.job().stolen().between(called, known), kNoticed) << "rank " << rank;
    }
    expect_parts(cause, {disagreements[i].most, disagreements[i].odd, "rank 1"});
  }
  differing.expect_good_end();
}

INSTANTIATE_TEST_SUITE_P(Transports, Disagreements,
                         testing::Combine(testing::Values("shm", "tcp", "ucx"), testing::Values(16, 17'000)),
                         [](const auto& params) {
                           return std::string(std::get<0>(params.param)) + "_" +
                                  std::to_string(std::get<1>(params.param));
                         });

}  // namespace
}  // namespace tutti::comm
