// Who takes part in the next generation of an elastic job, and when.
#include <gtest/gtest.h>
#include <tutti/tools/run/elastic/next_generation.h>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;
using Fates = std::vector<WorkerFate>;
using Kind = NextGeneration::Kind;
using Places = std::vector<std::size_t>;
constexpr auto R = WorkerFate::Runs, L = WorkerFate::Left, F = WorkerFate::Frozen, D = WorkerFate::Died,
               E = WorkerFate::Finished;

NextGeneration next(const Fates& fates, int used, int restarts, int min_ranks, int since_ms) {
  return next_generation(fates, used, {.min_ranks = min_ranks, .max_restarts = restarts}, milliseconds(since_ms));
}

TEST(NextGeneration, NothingHappensWhileAllRun) {
  EXPECT_EQ(next({R, R, R}, 0, 1, 3, 0).kind, Kind::Wait);
  EXPECT_EQ(next({R, E, R}, 0, 1, 3, 90'000).kind, Kind::Wait);
  EXPECT_EQ(next({R, F, R}, 0, 1, 3, 90'000).kind, Kind::Wait);  // frozen, but nobody has missed it
}

TEST(NextGeneration, ADeathIsSettledBeforeItIsDealtWith) {
  EXPECT_EQ(next({R, D, R}, 0, 1, 3, 0).kind, Kind::Wait);
  const NextGeneration formed = next({R, D, L}, 0, 1, 3, 200);
  EXPECT_EQ(formed.kind, Kind::Form);
  EXPECT_EQ(formed.survivors, (Places{0, 2}));
  EXPECT_EQ(formed.lost, (Places{1}));
  EXPECT_TRUE(formed.replace);
  EXPECT_EQ(next({L, D, L}, 0, 1, 3, 0).kind, Kind::Form);  // nobody else can die of it
}

TEST(NextGeneration, WithoutRestartsTheWorldShrinksToItsMinimum) {
  const NextGeneration smaller = next({L, D, L}, 1, 1, 2, 0);
  EXPECT_EQ(smaller.kind, Kind::Form);
  EXPECT_FALSE(smaller.replace);
  EXPECT_EQ(next({L, D, L}, 1, 1, 3, 0).kind, Kind::TooFew);
  EXPECT_EQ(next({D, D, D}, 1, 1, 1, 200).kind, Kind::TooFew);
  EXPECT_EQ(next({D, D, D}, 0, 1, 3, 200).kind, Kind::Form);  // all anew
}

TEST(NextGeneration, AFrozenWorkerIsKilledOnceAllOthersHaveGivenItUp) {
  EXPECT_EQ(next({L, F, R}, 0, 1, 3, 0).kind, Kind::Wait);
  const NextGeneration killing = next({L, F, L}, 0, 1, 3, 0);
  EXPECT_EQ(killing.kind, Kind::KillSilent);
  EXPECT_EQ(killing.silent, (Places{1}));
  EXPECT_EQ(next({D, F, R}, 0, 1, 3, 200).silent, (Places{1}));
}

TEST(NextGeneration, AWorkerThatSaysNothingHasItsTime) {
  EXPECT_EQ(next({L, R, L}, 0, 1, 3, 29'000).kind, Kind::Wait);
  const NextGeneration killing = next({L, R, L}, 0, 1, 3, 30'000);
  EXPECT_EQ(killing.kind, Kind::KillSilent);
  EXPECT_EQ(killing.silent, (Places{1}));
}

TEST(NextGeneration, AllHaveLeftAndNobodyDied) {
  const NextGeneration again = next({L, L}, 3, 3, 2, 0);
  EXPECT_EQ(again.kind, Kind::Form);
  EXPECT_EQ(again.survivors, (Places{0, 1}));
}

TEST(NextGeneration, OnceSomebodyHasFinishedNobodyIsReplaced) {
  EXPECT_EQ(next({E, D, E}, 0, 3, 3, 200).kind, Kind::AllDone);
  const NextGeneration rest = next({E, D, L}, 0, 3, 3, 200);
  EXPECT_EQ(rest.kind, Kind::Form);
  EXPECT_FALSE(rest.replace);
  EXPECT_EQ(rest.survivors, (Places{2}));
}

}  // namespace
}  // namespace tutti::tools
