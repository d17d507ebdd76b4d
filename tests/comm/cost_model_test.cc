// The estimates against the simulation of the very schedules that they describe, and against numbers worked out by
// hand.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/simulator.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kElementBytes = 4;
const NetworkModel kNetwork{12e-6, 0.7e-9, 0.13e-9, {}};

constexpr OpKind kOps[] = {OpKind::Broadcast, OpKind::Reduce,   OpKind::AllReduce,     OpKind::Gather,
                           OpKind::AllGather, OpKind::Scatter,  OpKind::ReduceScatter, OpKind::AllToAll,
                           OpKind::GatherV,   OpKind::ScatterV, OpKind::AllGatherV,    OpKind::ReduceScatterV,
                           OpKind::Barrier};

/// `counts` for the v-forms, `count` for the others, nothing for a barrier.
Problem problem_of(OpKind op, int p, std::size_t count, int root, std::size_t segment_count = 0) {
  Problem problem{op, 0, p, op == OpKind::Barrier ? 0 : count, root, segment_count};
  if (!has_counts(op)) return problem;
  problem.counts.assign(static_cast<std::size_t>(p), count);
  problem.count = 0;
  return problem;
}

/// The same with blocks of different lengths, some of them empty, in the v-forms.
Problem uneven_problem_of(OpKind op, int p, std::size_t count, int root, std::size_t segment_count = 0) {
  Problem problem = problem_of(op, p, count, root, segment_count);
  for (std::size_t rank = 0; rank < problem.counts.size(); ++rank) problem.counts[rank] = count * ((rank * 5 + 1) % 4);
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
    {OpKind::ReduceScatter, "bruck", false},
    {OpKind::AllToAll, "pairwise", true},
    {OpKind::AllToAll, "bruck", false},
    {OpKind::GatherV, "linear", true},
    {OpKind::ScatterV, "linear", true},
    {OpKind::AllGatherV, "ring", true},
    {OpKind::ReduceScatterV, "ring", true},
    {OpKind::Reduce, "chain", true},
    {OpKind::Barrier, "dissemination", true},
};

class ExactEstimates : public testing::TestWithParam<Exact> {};

TEST_P(ExactEstimates, EqualTheSimulation) {
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

INSTANTIATE_TEST_SUITE_P(Algorithms, ExactEstimates, testing::ValuesIn(kExact), [](const auto& test) {
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

/// Where ranks are: on hosts of their own, all on one, or four on each.
std::vector<std::vector<int>> layouts_of(int p) {
  std::vector<std::vector<int>> layouts(3);
  layouts[1].assign(static_cast<std::size_t>(p), 0);
  for (int rank = 0; rank < p; ++rank) layouts[2].push_back(rank / 4);
  return layouts;
}

/// A group chooses at once, by the estimate, and still about as well as if it had simulated every algorithm.
class Choices : public testing::TestWithParam<OpKind> {};

TEST_P(Choices, AreNearTheFastestOfTheSimulator) {
  constexpr double kFactor = 3;  // between an estimate and the simulation
  // What is chosen over what is the fastest: a bad choice takes p times as long. On several hosts, of which one may
  // have a single rank, algorithms that know of no hosts are priced as if all their messages went between them.
  constexpr double kWorstChoice = 1.45, kWorstChoiceOfHosts = 2.1;
  NetworkModel network;
  network.local_alpha /= 2;
  network.local_beta /= 2;
  const OpKind op = GetParam();
  const bool has_blocks = op != OpKind::Broadcast && op != OpKind::Reduce && op != OpKind::AllReduce;
  for (const int p : {2, 3, 4, 5, 8, 13, 16, 48, 64}) {
    for (const std::size_t bytes : {4, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 24}) {
      if (has_blocks && p > 16 && bytes > (1 << 18)) continue;  // too many steps
      for (const std::vector<int>& hosts : layouts_of(p)) {
        Problem problem = uneven_problem_of(op, p, bytes / kElementBytes, 0, 1 << 16);
        problem.hosts = hosts;
        const std::string_view chosen = algorithms::choose(problem, kElementBytes);
        const bool has_hosts = !hosts.empty() && hosts.back() > 0;
        double fastest = HUGE_VAL, taken = HUGE_VAL;
        for (const std::string_view algorithm : algorithms::names_for(op)) {
          if (algorithm.starts_with("hierarchical") && !has_hosts) continue;
          const double simulated = simulate(problem, kElementBytes, algorithm, network).finish();
          const double ratio = *predicted_seconds(problem, kElementBytes, algorithm, network) / simulated;
          EXPECT_TRUE(ratio < kFactor && ratio > 1 / kFactor)
              << algorithm << " of " << p << ", " << bytes << " bytes: " << ratio;
          fastest = std::min(fastest, simulated);
          if (algorithm == chosen) taken = simulated;
        }
        EXPECT_LE(taken, fastest * (has_hosts ? kWorstChoiceOfHosts : kWorstChoice))
            << chosen << " of " << p << ", " << bytes << " bytes";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Choices, testing::ValuesIn(kOps),
                         [](const auto& test) { return std::string(name(test.param)); });

/// 24 ranks on hosts of 4, one behind the other, where messages within a host are ten times cheaper.
TEST(CostModel, HierarchicalAlgorithmsArePricedByTheirLinks) {
  NetworkModel network = kNetwork;
  network.local_alpha = network.alpha / 10;
  network.local_beta = network.beta / 10;
  for (const OpKind op : {OpKind::AllReduce, OpKind::Broadcast, OpKind::Reduce}) {
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

TEST(CostModel, NothingBeatsTheLowerBound) {
  for (const OpKind op : kOps) {
    for (const std::string_view algorithm : algorithms::names_for(op)) {
      for (const int p : {1, 2, 3, 5, 8, 21}) {
        for (const std::size_t count : {0, 1, 64, 100'000}) {
          for (const std::size_t segment_count : {std::size_t{0}, count / 7 + 1}) {
            const Problem problem = uneven_problem_of(op, p, count, p / 2, segment_count);
            EXPECT_GE(simulate(problem, kElementBytes, algorithm, kNetwork).finish() * (1 + 1e-9),
                      lower_bound_seconds(problem, kElementBytes, kNetwork))
                << name(op) << ' ' << algorithm << " world " << p << " count " << count;
          }
        }
      }
    }
  }
}

TEST(CostModel, HasNoEstimateOfWhatDoesNotGoTogether) {
  EXPECT_FALSE(predicted_seconds({OpKind::AllReduce, 0, 4, 8}, 4, "bruck", kNetwork).has_value());
  EXPECT_FALSE(predicted_seconds({OpKind::Send, 0, 4, 8}, 4, "ring", kNetwork).has_value());
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 1, 8}, 4, "ring", kNetwork), 0.0);
  EXPECT_EQ(predicted_seconds({OpKind::AllReduce, 0, 4, 0}, 4, "ring", kNetwork), 0.0);
}

}  // namespace
}  // namespace tutti::comm
