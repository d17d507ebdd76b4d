// The formulas against the simulation of the very schedules that they describe, and against numbers worked out by hand.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/simulator.h>

#include <string>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kElementBytes = 4;
const NetworkModel kNetwork{12e-6, 0.7e-9, 0.13e-9, {}};

constexpr OpKind kOps[] = {OpKind::Broadcast, OpKind::Reduce,   OpKind::AllReduce,     OpKind::Gather,
                           OpKind::AllGather, OpKind::Scatter,  OpKind::ReduceScatter, OpKind::AllToAll,
                           OpKind::GatherV,   OpKind::ScatterV, OpKind::AllGatherV,    OpKind::Barrier};

/// Uneven counts for the v-forms, `count` for the others, nothing for a barrier.
Problem problem_of(OpKind op, int p, std::size_t count, int root, std::size_t segment_count = 0) {
  Problem problem{op, 0, p, op == OpKind::Barrier ? 0 : count, root, segment_count};
  if (!has_counts(op)) return problem;
  for (int rank = 0; rank < p; ++rank) problem.counts.push_back(count * static_cast<std::size_t>((rank * 5 + 1) % 4));
  problem.count = 0;
  return problem;
}

struct Exact {
  OpKind op;
  const char* algorithm;
  bool any_world;  // else powers of two
};

const std::vector<Exact> kExact = {
    {OpKind::AllReduce, "ring", true},
    {OpKind::AllReduce, "recursive_doubling", true},
    {OpKind::AllReduce, "rabenseifner", false},
    {OpKind::AllGather, "ring", true},
    {OpKind::AllGather, "recursive_doubling", false},
    {OpKind::AllGather, "bruck", true},
    {OpKind::Broadcast, "binomial", false},
    {OpKind::Reduce, "binomial", false},
    {OpKind::AllReduce, "binomial", false},
    {OpKind::Gather, "binomial", false},
    {OpKind::Scatter, "binomial", false},
    {OpKind::Broadcast, "chain", true},
    {OpKind::AllReduce, "star", true},
    {OpKind::AllGather, "star", true},
    {OpKind::ReduceScatter, "star", true},
    {OpKind::Barrier, "star", true},
    {OpKind::Gather, "direct", true},
    {OpKind::Scatter, "direct", true},
    {OpKind::ReduceScatter, "ring", true},
    {OpKind::ReduceScatter, "recursive_halving", false},
    {OpKind::AllToAll, "pairwise", true},
    {OpKind::AllToAll, "bruck", true},
    {OpKind::GatherV, "linear", true},
    {OpKind::ScatterV, "linear", true},
    {OpKind::AllGatherV, "ring", true},
    {OpKind::Reduce, "chain", true},
    {OpKind::Barrier, "dissemination", true},
};

class Formulas : public testing::TestWithParam<Exact> {};

TEST_P(Formulas, EqualTheSimulation) {
  const auto& [op, algorithm, any_world] = GetParam();
  for (const int p : {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 100, 128}) {
    if (!any_world && (p & (p - 1)) != 0) continue;
    for (const std::size_t chunk : {0, 1, 1000, 70'001}) {
      const Problem problem = problem_of(op, p, chunk * static_cast<std::size_t>(p), p / 3);
      const double simulated = simulate(problem, kElementBytes, algorithm, kNetwork).finish();
      const auto predicted = predicted_seconds(problem, kElementBytes, algorithm, kNetwork);
      ASSERT_TRUE(predicted.has_value());
      EXPECT_NEAR(simulated, *predicted, 1e-9 * *predicted) << "world " << p << " chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Formulas, testing::ValuesIn(kExact), [](const auto& test) {
  return std::string(name(test.param.op)) + "_" + test.param.algorithm;
});

TEST(CostModel, ByHand) {
  const NetworkModel unit{1, 2, 3, {}};
  const auto seconds = [&](OpKind op, int p, const char* algorithm, std::size_t segment_count = 0) {
    return *predicted_seconds({op, 0, p, 8, 0, segment_count}, 1, algorithm, unit);
  };
  EXPECT_EQ(seconds(OpKind::AllReduce, 4, "ring"), 6 + 6 * 2 * 2 + 3 * 2 * 3);  // hops of 2 bytes
  EXPECT_EQ(seconds(OpKind::AllReduce, 4, "recursive_doubling"), 2 * (1 + 16 + 24));
  EXPECT_EQ(seconds(OpKind::AllReduce, 4, "rabenseifner"), 4 + 2 * (8 + 4) + 3 * (4 + 2));  // of 4 and 2 bytes
  EXPECT_EQ(seconds(OpKind::AllReduce, 5, "rabenseifner"), 46 + 2 * (1 + 16) + 24);
  EXPECT_EQ(seconds(OpKind::Broadcast, 5, "binomial"), 3 * 17);
  EXPECT_EQ(seconds(OpKind::Broadcast, 5, "chain", 2), (3 + 4) * 5);
  EXPECT_EQ(seconds(OpKind::Barrier, 5, "dissemination"), 3);
}

TEST(CostModel, ChainWithSegmentsEqualsTheSimulation) {
  NetworkModel slow_sums = kNetwork;
  slow_sums.gamma = 1e-6;  // reducing a piece takes longer than its message
  for (const OpKind op : {OpKind::Broadcast, OpKind::Reduce}) {
    for (const NetworkModel& network : {kNetwork, slow_sums}) {
      for (const int p : {2, 3, 9}) {
        for (const std::size_t segment_count : {100, 300, 2500}) {
          const Problem problem{op, 0, p, 7500, 1, segment_count};
          const double simulated = simulate(problem, kElementBytes, "chain", network).finish();
          EXPECT_NEAR(simulated / *predicted_seconds(problem, kElementBytes, "chain", network), 1, 1e-9) << name(op);
        }
      }
    }
  }
}

TEST(CostModel, ThereAndBackInSegmentsEqualsTheSimulation) {
  NetworkModel slow_sums = kNetwork;
  slow_sums.gamma = 1e-6;
  for (const char* algorithm : {"binomial", "star"}) {
    for (const NetworkModel& network : {kNetwork, slow_sums}) {
      for (const std::size_t segment_count : {0, 100, 300, 2500, 7500}) {
        const Problem problem{OpKind::AllReduce, 0, 2, 7500, 0, segment_count};
        const double simulated = simulate(problem, kElementBytes, algorithm, network).finish();
        EXPECT_NEAR(simulated / *predicted_seconds(problem, kElementBytes, algorithm, network), 1, 1e-9)
            << algorithm << ", segments of " << segment_count;
      }
    }
  }
}

TEST(CostModel, ThereAndBackOnAMeasuredNetwork) {
  NetworkModel network{1, 1, 1, {}};
  network.measured = {{0, 1000}, {100, 1000}};
  network.exchanges = {{0, 4}, {25, 6}, {100, 60}};
  network.hops = {{0, 7}, {100, 11}};
  network.sums = {{100, 10}};
  for (const char* algorithm : {"binomial", "star"}) {
    EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 2, 100, 0, 25}, 1, algorithm, network), 2 * 8 + 3 * 15 + 10)
        << "a hop each way, three quarters of an exchange of all, and the sum";
    EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 2, 100}, 1, algorithm, network), 2 * 11 + 10);
  }
}

TEST(CostModel, ARingOfSegmentsEqualsTheSimulation) {
  constexpr std::size_t kSegment = 1000;
  for (const int p : {2, 3, 4, 8, 13}) {
    for (const std::size_t segments : {1, 2, 3, 16}) {
      const std::size_t chunk = segments * 4 * kSegment;  // in an all_reduce by ring they are four times as long
      const Problem problem{OpKind::AllReduce, 0, p, chunk * static_cast<std::size_t>(p), 0, kSegment};
      const double simulated = simulate(problem, kElementBytes, "ring", kNetwork).finish();
      EXPECT_NEAR(*predicted_seconds(problem, kElementBytes, "ring", kNetwork) / simulated, 1, 1e-9)
          << "world " << p << ", " << segments << " segments";
    }
  }
}

TEST(CostModel, RabenseifnerOfTwoRanksInSegmentsEqualsTheSimulation) {
  for (const std::size_t segment_count : {0, 1000, 4000}) {
    const Problem problem{OpKind::AllReduce, 0, 2, 32000, 0, segment_count};
    const double simulated = simulate(problem, kElementBytes, "rabenseifner", kNetwork).finish();
    EXPECT_NEAR(*predicted_seconds(problem, kElementBytes, "rabenseifner", kNetwork) / simulated, 1, 1e-9)
        << "segments of " << segment_count;
  }
}

/// What is no more than an estimate stays within these bounds of the simulation.
struct Estimate {
  OpKind op;
  const char* algorithm;
  double least;  // predicted / simulated
  double most;
};

class Estimates : public testing::TestWithParam<Estimate> {};

TEST_P(Estimates, AreNearTheSimulation) {
  const auto& [op, algorithm, least, most] = GetParam();
  for (const int p : {2, 3, 4, 5, 7, 8, 13, 16, 31, 64, 100}) {
    for (const std::size_t count : {1, 1000, 64'000, 2'000'000}) {
      const std::size_t blocks =
          op == OpKind::ReduceScatter ? 1 : static_cast<std::size_t>(p);  // it counts them itself
      const Problem problem = problem_of(op, p, count * blocks, p / 3, 64'000);
      const double simulated = simulate(problem, kElementBytes, algorithm, kNetwork).finish();
      const double ratio = *predicted_seconds(problem, kElementBytes, algorithm, kNetwork) / simulated;
      EXPECT_GE(ratio, least) << "world " << p << " count " << problem.count;
      EXPECT_LE(ratio, most) << "world " << p << " count " << problem.count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Estimates,
                         testing::Values(Estimate{OpKind::AllReduce, "ring", 0.8, 1.3},
                                         Estimate{OpKind::AllReduce, "rabenseifner", 0.75, 1.3},
                                         Estimate{OpKind::Broadcast, "double_tree", 0.5, 1.6},
                                         Estimate{OpKind::Reduce, "double_tree", 0.5, 1.6},
                                         Estimate{OpKind::AllReduce, "double_tree", 0.5, 1.6},
                                         Estimate{OpKind::ReduceScatter, "direct", 0.5, 1.6}),
                         [](const auto& test) {
                           return std::string(name(test.param.op)) + "_" + test.param.algorithm;
                         });

/// 24 ranks on hosts of 4, one behind the other, where messages within a host are ten times cheaper.
TEST(CostModel, HierarchicalAlgorithmsArePricedByTheirLinks) {
  NetworkModel network = kNetwork;
  network.local_alpha = network.alpha / 10;
  network.local_beta = network.beta / 10;
  for (const OpKind op : {OpKind::AllReduce, OpKind::Broadcast, OpKind::Reduce, OpKind::AllGather, OpKind::Barrier}) {
    for (const std::size_t count : {24, 240'000}) {
      Problem problem = problem_of(op, 32, count, 0);
      for (int rank = 0; rank < 32; ++rank) problem.hosts.push_back(rank / 4);
      for (const std::string_view algorithm : {"hierarchical", "hierarchical_split"}) {
        const auto predicted = predicted_seconds(problem, kElementBytes, algorithm, network);
        if (!predicted) continue;
        const double simulated = simulate(problem, kElementBytes, algorithm, network).finish();
        EXPECT_NEAR(*predicted / simulated, 1, 0.1) << name(op) << ' ' << algorithm << " count " << count;
      }
    }
  }
}

TEST(CostModel, StartupIsPaidOnce) {
  NetworkModel network{1, 2, 3, {}};
  const double without = *predicted_seconds({OpKind::AllReduce, 0, 4, 8}, 1, "ring", network);
  network.startup = 100;
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 4, 8}, 1, "ring", network), without + 100);
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 1, 8}, 1, "ring", network), 0.0);
}

TEST(CostModel, PiecesOfALongVectorPayWhatItsBytesCost) {
  NetworkModel network{1, 1, 0, {}};
  network.measured = {{0, 1}, {10, 2}, {100, 101}};  // up to 10 bytes 0.1 a byte, beyond about 1
  const Problem problem{OpKind::Broadcast, 0, 2, 200, 0, 10};
  EXPECT_EQ(predicted_seconds(problem, 1, "chain", network), 20 * 10) << "20 pieces at the rate of 100 bytes";
}

TEST(CostModel, MessagesOfOneRankWithAllOthersPayWhatAllTheirBytesCost) {
  NetworkModel network{1, 1, 0, {}};
  network.measured = {{0, 1000}, {1000, 1000}};
  network.hops = {{0, 7}, {1000, 7}};
  network.repeats = {{0, 4}, {100, 4}, {300, 24}, {1000, 24}};  // beyond 100 bytes they leave a cache
  const auto all_reduce = [&](std::size_t bytes) {
    return predicted_seconds({OpKind::AllReduce, 0, 4, bytes}, 1, "star", network);
  };
  EXPECT_EQ(all_reduce(30), 2 * (7 + 2 * 4 / 4.0));
  EXPECT_EQ(all_reduce(100), 2 * (7 + 2 * 8 / 4.0)) << "a third of what 300 take";
  EXPECT_EQ(all_reduce(300), 2 * (7 + 2 * 24 / 4.0)) << "no less than one takes";
}

TEST(CostModel, MeasuredMessagesTakeThePlaceOfAlphaAndBeta) {
  NetworkModel network{1, 1, 0, {}};
  network.measured = {{0, 4}, {100, 6}, {200, 16}};
  EXPECT_EQ(network.message_seconds(0), 4);
  EXPECT_EQ(network.message_seconds(50), 5);
  EXPECT_EQ(network.message_seconds(150), 11);
  EXPECT_EQ(network.message_seconds(400), 32);
  EXPECT_EQ(predicted_seconds({OpKind::AllGather, 0, 3, 100}, 1, "ring", network), 12);
  EXPECT_EQ(simulate({OpKind::AllGather, 0, 3, 100}, 1, "ring", network).finish(), 12);
}

TEST(CostModel, ExchangesHopsAndSumsHaveCurvesOfTheirOwn) {
  NetworkModel network{1, 1, 1, {}};
  network.measured = {{0, 1000}, {100, 1000}};
  network.exchanges = {{0, 4}, {100, 6}};
  network.hops = {{0, 7}, {100, 9}};
  network.sums = {{100, 1}, {200, 8}};
  const Problem two{OpKind::AllReduce, 0, 2, 100};
  EXPECT_EQ(predicted_seconds(two, 1, "recursive_doubling", network), 6 + 1);
  EXPECT_EQ(predicted_seconds(two, 1, "rabenseifner", network), 2 * 5 + 0.5) << "sums at the rate of 100 bytes";
  EXPECT_EQ(predicted_seconds(two, 1, "ring", network), 2 * 1000 + 0.5);
  EXPECT_EQ(predicted_seconds(two, 1, "double_tree", network), 2 * 8 + 5 + 0.5)
      << "there and back, and the other half, of which each adds one";
  EXPECT_EQ(predicted_seconds({OpKind::Broadcast, 0, 4, 100}, 1, "binomial", network), 2 * 9);
  network.repeats = {{0, 2}, {100, 2}};
  EXPECT_EQ(predicted_seconds(two, 1, "rabenseifner", network), 5 + 2 + 0.5) << "the same partners twice";
  EXPECT_EQ(predicted_seconds(two, 1, "double_tree", network), 2 * 8 + 2 + 0.5);
  EXPECT_EQ(predicted_seconds(two, 1, "star", network), 2 * 9 + 1) << "there and back";
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 4, 100}, 1, "star", network), 2 * (9 + 2 * 2 / 4.0) + 3)
      << "and the root's other two each way, a quarter of a round of all";
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 4, 100}, 1, "double_tree", network), 3 * 8 + 2 * 2 + 0.75)
      << "up and down, less a hop in which others pass some of the two pieces that each has besides";
  EXPECT_EQ(predicted_seconds({OpKind::Broadcast, 0, 4, 100}, 1, "double_tree", network), 2 * 8 + 0.5 * 2);
  network.repeats = {};
  EXPECT_EQ(predicted_seconds({OpKind::ReduceScatter, 0, 2, 100}, 1, "recursive_halving", network), 6 + 4);
}

TEST(CostModel, VanDeGeijnIsAnUpperBoundInWorldsOfAPowerOfTwo) {
  for (const int p : {2, 3, 4, 5, 8, 13, 16, 64}) {
    const Problem problem{OpKind::Broadcast, 0, p, static_cast<std::size_t>(1000 * p), p / 2};
    const double simulated = simulate(problem, kElementBytes, "van_de_geijn", kNetwork).finish();
    const double predicted = *predicted_seconds(problem, kElementBytes, "van_de_geijn", kNetwork);
    const bool is_power_of_two = (p & (p - 1)) == 0;
    EXPECT_LE(simulated, predicted * (is_power_of_two ? 1 + 1e-9 : 1.05)) << p;
    EXPECT_GE(simulated, predicted * 0.75) << p;
  }
}

TEST(CostModel, NothingBeatsTheLowerBound) {
  for (const OpKind op : kOps) {
    for (const std::string_view algorithm : algorithms::names_for(op)) {
      for (const int p : {1, 2, 3, 5, 8, 21}) {
        for (const std::size_t count : {0, 1, 64, 100'000}) {
          for (const std::size_t segment_count : {std::size_t{0}, count / 7 + 1}) {
            const Problem problem = problem_of(op, p, count, p / 2, segment_count);
            EXPECT_GE(simulate(problem, kElementBytes, algorithm, kNetwork).finish() * (1 + 1e-9),
                      lower_bound_seconds(problem, kElementBytes, kNetwork))
                << name(op) << ' ' << algorithm << " world " << p << " count " << count;
          }
        }
      }
    }
  }
}

TEST(CostModel, HasNoFormulaForWhatDoesNotGoTogether) {
  EXPECT_FALSE(predicted_seconds({OpKind::AllReduce, 0, 4, 8}, 4, "bruck", kNetwork).has_value());
  EXPECT_FALSE(predicted_seconds({OpKind::Send, 0, 4, 8}, 4, "ring", kNetwork).has_value());
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 1, 8}, 4, "ring", kNetwork), 0.0);
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 4, 0}, 4, "ring", kNetwork), 0.0);
}

TEST(CostModel, EveryAlgorithmHasAFormula) {
  for (const OpKind op : kOps) {
    for (const std::string_view algorithm : algorithms::names_for(op)) {
      EXPECT_TRUE(predicted_seconds(problem_of(op, 4, 8, 0), 4, algorithm, kNetwork).has_value())
          << name(op) << ' ' << algorithm;
    }
  }
}

}  // namespace
}  // namespace tutti::comm
