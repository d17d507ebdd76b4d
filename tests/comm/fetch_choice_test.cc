// Whether lines are fetched before they are written: from what it is told, and how often it is tried again.
#include <gtest/gtest.h>
#include <tutti/comm/transport/shm/fetch_choice.h>

#include <chrono>
#include <cstddef>

namespace tutti::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 16 * 1024;

void learn(FetchChoice& choice, std::chrono::nanoseconds took) {
  for (int i = 0; i < FetchChoice::kTries; ++i) choice.sample(kBytes, took);
}

int fetching(FetchChoice& choice, int operations) {
  int fetches = 0;
  for (int i = 0; i < operations; ++i) fetches += choice.choose(kBytes) == kBytes ? 1 : 0;
  return fetches;
}

TEST(FetchChoice, FetchesAllButNowAndThenToSeeWhatThatGains) {
  FetchChoice choice;
  EXPECT_EQ(fetching(choice, 3 * FetchChoice::kTryEvery), 3 * (FetchChoice::kTryEvery - 1));
}

TEST(FetchChoice, FetchesNothingLongOnceCopiesAreQuickWithoutIt) {
  FetchChoice choice;
  choice.sample(kBytes, 300ns);
  EXPECT_EQ(fetching(choice, FetchChoice::kTryEvery), FetchChoice::kTryEvery - 1) << "one quick copy is chance";
  learn(choice, 300ns);
  EXPECT_EQ(fetching(choice, 2 * FetchChoice::kTryEvery), 0);
  EXPECT_EQ(choice.choose(FetchChoice::kAlways), FetchChoice::kAlways);
}

TEST(FetchChoice, FetchesAgainOnceCopiesAreSlow) {
  FetchChoice choice;
  learn(choice, 300ns);
  learn(choice, 1us);
  EXPECT_EQ(fetching(choice, FetchChoice::kTryEvery), FetchChoice::kTryEvery - 1);
}

/// Whether copy() is called once a call, and how many of the operations are timed: a clock costs, too.
TEST(FetchChoice, TimesOnlyTheCopyAfterAnOperationThatFetchedNothing) {
  FetchChoice choice;
  int copies = 0;
  const auto slowly = [&] {
    ++copies;
    const auto end = std::chrono::steady_clock::now() + 100us;
    while (std::chrono::steady_clock::now() < end) continue;
  };
  learn(choice, 300ns);
  for (int i = 0; i < FetchChoice::kTries * FetchChoice::kTryEvery; ++i) {
    EXPECT_EQ(choice.choose(kBytes), 0u) << i << ": as long as too few slow copies are known";
    choice.time(kBytes, slowly);
    choice.time(kBytes, slowly);  // another piece: the first one tells enough
  }
  EXPECT_EQ(copies, 2 * FetchChoice::kTries * FetchChoice::kTryEvery);
  EXPECT_EQ(choice.choose(kBytes), kBytes);
}

TEST(FetchChoice, ShortCopiesSayNothing) {
  FetchChoice choice;
  for (int i = 0; i < 2 * FetchChoice::kTries * FetchChoice::kTryEvery; ++i) {
    choice.choose(kBytes);
    choice.time(FetchChoice::kAlways - 1, [] {});
  }
  EXPECT_EQ(fetching(choice, FetchChoice::kTryEvery), FetchChoice::kTryEvery - 1);
}

}  // namespace
}  // namespace tutti::comm
