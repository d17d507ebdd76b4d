// Who takes part in the next generation of an elastic job, and when.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/elastic/elastic_messages.h>
#include <tutti/tools/run/elastic/next_generation.h>

namespace tutti::tools {
namespace {

using std::chrono::milliseconds;
using Fates = std::vector<WorkerFate>;
using Kind = NextGeneration::Kind;
using Places = std::vector<std::size_t>;
constexpr auto R = WorkerFate::Runs, L = WorkerFate::Left, F = WorkerFate::Frozen, D = WorkerFate::Died,
               E = WorkerFate::Finished, G = WorkerFate::Gone;

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

TEST(NextGeneration, WhoIsGoneWithItsNodeIsLeftOutAndNotMissed) {
  const NextGeneration smaller = next({L, L, G, G}, 0, 0, 0, 0);  // 0: all that are not gone
  EXPECT_EQ(smaller.kind, Kind::Form);
  EXPECT_EQ(smaller.survivors, (Places{0, 1}));
  EXPECT_EQ(smaller.lost, (Places{2, 3}));
  EXPECT_EQ(next({L, D, G, G}, 0, 0, 0, 0).kind, Kind::TooFew);
  EXPECT_EQ(next({L, D, G, G}, 0, 1, 0, 0).kind, Kind::Form);
  EXPECT_EQ(next({L, L, G, G}, 0, 3, 3, 0).kind, Kind::TooFew);  // replacements cannot be started there
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

// What agents and coordinator say about it on several nodes.
TEST(ElasticMessages, ComeBackAsTheyWere) {
  RanksChanged changed{{3}, {}};
  changed.as_they_are.round = 2;
  RankEnd killed;
  killed.running = false;
  killed.by_signal = killed.replaced = true;
  killed.code = 9;
  changed.as_they_are.ranks = {killed};
  const RanksChanged told =
      to_ranks_changed(to_words(changed, RankEnd::Clock::time_point()), RankEnd::Clock::time_point());
  EXPECT_EQ(told.places, changed.places);
  EXPECT_EQ(told.as_they_are.round, 2);
  EXPECT_TRUE(told.as_they_are.ranks.at(0).replaced);
  EXPECT_EQ(told.as_they_are.ranks.at(0).code, 9);

  RescueOrder order;
  order.round = 2;
  order.lost = {1};
  order.frozen = {0, 4};
  RescuePlan::Start start;
  start.local_rank = 1;
  start.restart_count = 2;
  start.environment = {"RANK=3", "TUTTI_WORKER=1.1.1"};
  order.starts = {start};
  const RescueOrder obeyed = to_rescue_order(to_words(order));
  EXPECT_EQ(obeyed.round, 2);
  EXPECT_EQ(obeyed.lost, order.lost);
  EXPECT_EQ(obeyed.frozen, order.frozen);
  ASSERT_EQ(obeyed.starts.size(), 1U);
  EXPECT_EQ(obeyed.starts[0].local_rank, 1);
  EXPECT_EQ(obeyed.starts[0].restart_count, 2);
  EXPECT_EQ(obeyed.starts[0].environment, start.environment);

  Words cut = to_words(order);
  cut.pop_back();
  EXPECT_THROW(to_rescue_order(cut), comm::Error);
  Words two = to_words(changed, RankEnd::Clock::time_point());
  two.insert(two.begin() + 2, "0");
  two[1] = "2";
  EXPECT_THROW(to_ranks_changed(two, RankEnd::Clock::time_point()), comm::Error);
}

}  // namespace
}  // namespace tutti::tools
