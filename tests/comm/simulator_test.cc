#include <gtest/gtest.h>
#include <tutti/comm/algorithms/simulator.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

// alpha 1 s, beta 2 s a byte, gamma 3 s a byte: a message of one byte takes 3 s.
const NetworkModel kUnit{1, 2, 3, {}};

const Slice kOne{BufferId::Output, 0, 1};
const Slice kTen{BufferId::Output, 0, 10};

Step send(int peer, Slice source, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::Send, peer, source, {}, false, std::move(after)};
}
Step recv(int peer, Slice target, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::Recv, peer, {}, target, false, std::move(after)};
}
Step recv_reduce(int peer, Slice target, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::RecvReduce, peer, {}, target, false, std::move(after)};
}
Schedule of(std::vector<Step> steps) { return {"test", std::move(steps), 0}; }

std::vector<double> finishes(const std::vector<Schedule>& schedules, const NetworkModel& network = kUnit) {
  return simulate(schedules, 1, network).finishes;
}

std::string message_of(const std::vector<Schedule>& schedules) {
  return test::text_of(ErrorCode::InvalidArgument, [&] { simulate(schedules, 1, kUnit); });
}

// --- By hand

TEST(Simulator, TellsWhenEachStepIsComplete) {
  // Rank 1 adds what it gets (3 s after the message's 3 s), and sends the sum on; rank 0 copies at once.
  const Slice input{BufferId::Input, 0, 1};
  const std::vector schedules{of({{Step::Kind::Copy, -1, input, kOne, false, {}}, send(1, kOne, {0})}),
                              of({recv_reduce(0, kOne), send(2, kOne, {0})}), of({recv(1, kOne)})};
  std::vector<std::string> told;
  simulate(schedules, 1, kUnit, {}, [&](int rank, std::uint32_t step, double seconds) {
    told.push_back(std::to_string(rank) + "." + std::to_string(step) + " " + std::to_string(std::lround(seconds)));
  });
  EXPECT_EQ(told, (std::vector<std::string>{"0.0 0", "0.1 3", "1.0 6", "1.1 9", "2.0 9"}));
}

TEST(Simulator, OneMessage) {
  const auto simulation = simulate(std::vector{of({send(1, kTen)}), of({recv(0, kTen)})}, 4, kUnit);
  EXPECT_EQ(simulation.finishes, (std::vector<double>{81, 81}));
  EXPECT_EQ(simulation.finish(), 81);
}

TEST(Simulator, BothDirectionsAtOnce) {
  EXPECT_EQ(finishes({of({send(1, kOne), recv(1, kOne)}), of({send(0, kOne), recv(0, kOne)})}),
            (std::vector<double>{3, 3}));
}

TEST(Simulator, OneSendAtATimeInTheOrderOfSteps) {
  EXPECT_EQ(finishes({of({send(1, kTen), send(2, kOne)}), of({recv(0, kTen)}), of({recv(0, kOne)})}),
            (std::vector<double>{24, 21, 24}));
}

TEST(Simulator, OneReceiveAtATimeLongestReadyFirst) {
  // Rank 2 hears from 3 first and is ready at 3; rank 1 is ready at 0 and passes first whatever the order of steps.
  EXPECT_EQ(finishes({of({recv(2, kOne), recv(1, kTen)}), of({send(0, kTen)}), of({recv(3, kOne), send(0, kOne, {0})}),
                      of({send(2, kOne)})}),
            (std::vector<double>{24, 21, 24, 3}));
}

TEST(Simulator, ABlockedMessageHoldsUpNoOther) {
  // Rank 0 would send to 2 first, but 2 is busy with 1's message: 3 gets its own in the meantime.
  EXPECT_EQ(finishes({of({recv(3, kOne), send(2, kOne, {0}), send(3, kOne, {0})}), of({send(2, kTen)}),
                      of({recv(1, kTen), recv(0, kOne)}), of({send(0, kOne), recv(0, kOne)})}),
            (std::vector<double>{24, 21, 24, 6}));
}

TEST(Simulator, ReducesOneThingAtATimeBesideTheNextMessage) {
  // Arrivals at 3 and 6; sums done at 6 and 9.
  EXPECT_EQ(finishes({of({recv_reduce(1, kOne), recv_reduce(2, {BufferId::Output, 1, 1})}), of({send(0, kOne)}),
                      of({send(0, kOne)})}),
            (std::vector<double>{9, 3, 6}));
  // A sum of 10 bytes lasts from 21 to 51: the second, arrived at 24, waits for it.
  EXPECT_EQ(finishes({of({recv_reduce(1, kTen), recv_reduce(2, {BufferId::Output, 10, 1})}), of({send(0, kTen)}),
                      of({send(0, kOne)})}),
            (std::vector<double>{54, 21, 24}));
}

TEST(Simulator, CopiesAreFreeAndReductionsAreNot) {
  const Step copy{Step::Kind::Copy, -1, kOne, kTen, false, {0}};
  const Step reduce{Step::Kind::Reduce, -1, kOne, kOne, false, {1}};
  EXPECT_EQ(finishes({of({recv(1, kOne), copy, reduce}), of({send(0, kOne)})}), (std::vector<double>{6, 3}));
}

TEST(Simulator, MessagesOfOnePairKeepTheirOrder) {
  // The first waits for rank 2; the second could go at once, and does not.
  EXPECT_EQ(finishes({of({recv(2, kTen), send(1, kOne, {0}), send(1, kOne)}), of({recv(0, kOne), recv(0, kOne)}),
                      of({send(0, kTen)})}),
            (std::vector<double>{27, 27, 21}));
}

TEST(Simulator, SlowRanksSlowTheirMessagesAndTheirArithmetic) {
  NetworkModel network = kUnit;
  network.slowdown = {1, 10};
  EXPECT_EQ(finishes({of({send(1, kOne), recv(2, kOne)}), of({recv_reduce(0, kOne)}), of({send(0, kOne)})}, network),
            (std::vector<double>{30, 60, 3}));
}

TEST(Simulator, TellsTheObserverEveryMessage) {
  std::vector<Transfer> seen;
  simulate(std::vector{of({send(1, kTen), send(1, kOne)}), of({recv(0, kTen), recv(0, kOne)})}, 1, kUnit,
           [&](const Transfer& transfer) { seen.push_back(transfer); });
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].bytes, 10u);
  EXPECT_EQ(seen[0].start, 0);
  EXPECT_EQ(seen[0].end, 21);
  EXPECT_EQ(seen[1].from, 0);
  EXPECT_EQ(seen[1].to, 1);
  EXPECT_EQ(seen[1].start, 21);
  EXPECT_EQ(seen[1].end, 24);
}

TEST(Simulator, RefusesWhatCannotRun) {
  EXPECT_EQ(message_of({of({send(1, kOne)}), of({})}),
            "step 0 at rank 0 (send of output[0, 1) to rank 1) has no matching receive");
  EXPECT_EQ(message_of({of({recv(1, kOne), send(1, kOne, {0})}), of({recv(0, kOne), send(0, kOne, {0})})}),
            "deadlock: step 0 at rank 0 (recv from rank 1 into output[0, 1)) waits for step 1 at rank 1 (send of "
            "output[0, 1) to rank 0), which waits for step 0 at rank 1 (recv from rank 0 into output[0, 1)), which "
            "waits for step 1 at rank 0 (send of output[0, 1) to rank 1), which waits for step 0 at rank 0 (recv from "
            "rank 1 into output[0, 1))");
}

// --- One for all, and all for themselves

TEST(Simulator, OneRankStandsForAllWhereTheAlgorithmRotates) {
  for (const auto& [op, algorithm] : {std::pair{OpKind::AllReduce, "ring"},
                                      {OpKind::AllGather, "ring"},
                                      {OpKind::AllGather, "bruck"},
                                      {OpKind::ReduceScatter, "bruck"},
                                      {OpKind::Barrier, "dissemination"}}) {
    for (const int p : {1, 2, 3, 7, 8, 12}) {
      const Problem problem{op, 0, p, static_cast<std::size_t>(6 * p), 0, 4};
      std::vector<Schedule> schedules;
      for (Problem one = problem; one.rank < p; ++one.rank) schedules.push_back(algorithms::select(one, 4, algorithm));
      const Simulation short_way = simulate(problem, 4, algorithm, kUnit);
      EXPECT_EQ(short_way.finishes, simulate(schedules, 4, kUnit).finishes) << algorithm << " world " << p;
      // With an observer each rank runs the one schedule for itself.
      std::size_t seen = 0, sent = 0;
      const auto count = [&](const Transfer&) { ++seen; };
      EXPECT_EQ(simulate(problem, 4, algorithm, kUnit, count).finishes, short_way.finishes) << algorithm;
      for (const Schedule& schedule : schedules)
        sent += static_cast<std::size_t>(std::ranges::count_if(schedule.steps, sends));
      EXPECT_EQ(seen, sent) << algorithm << " world " << p;
    }
  }
}

TEST(Simulator, AStragglerHoldsUpARing) {
  const Problem problem{OpKind::AllReduce, 0, 8, 800};
  NetworkModel network{1e-5, 1e-9, 0, {}};
  const double alone = simulate(problem, 4, "ring", network).finish();
  network.slowdown = {1, 1, 1, 5};
  const double held_up = simulate(problem, 4, "ring", network).finish();
  EXPECT_GT(held_up, 4 * alone);
  EXPECT_LE(held_up, 5 * alone * (1 + 1e-12));
}

TEST(Simulator, MessagesWithinAHostTakeTheLocalTimes) {
  NetworkModel network = kUnit;
  network.local_alpha = 0.5;
  network.local_beta = 0.25;
  const Problem problem{OpKind::Broadcast, 0, 4, 2, 0, 0, {}, {7, 7, 1, 1}};
  // Rank 0 to 2 in 5 s, then both to their neighbours in 1 s.
  EXPECT_EQ(simulate(problem, 1, "hierarchical", network).finishes, (std::vector<double>{6, 6, 6, 6}));
}

TEST(Simulator, IsDeterministic) {
  const Problem problem{OpKind::AllReduce, 0, 11, 1003, 0, 17};
  const NetworkModel network{1e-5, 1e-9, 1e-10, {1, 1.25, 2, 1, 3}};
  for (const char* algorithm : {"ring", "rabenseifner", "recursive_doubling"}) {
    EXPECT_EQ(simulate(problem, 4, algorithm, network).finishes, simulate(problem, 4, algorithm, network).finishes);
  }
}

TEST(Simulator, PricesAWorldOf4096) {
  const NetworkModel network;
  const Problem problem{OpKind::AllReduce, 0, 4096, 16'777'216};
  for (const char* algorithm : {"ring", "rabenseifner", "recursive_doubling"}) {
    const double simulated = simulate(problem, 4, algorithm, network).finish();
    EXPECT_NEAR(simulated / *predicted_seconds(problem, 4, algorithm, network), 1, 1e-9) << algorithm;
  }
}

}  // namespace
}  // namespace tutti::comm
