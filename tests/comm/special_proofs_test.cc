// The proofs that need more than a count: reductions in the order of ranks, and the v-forms.
#include <gtest/gtest.h>
#include <tutti/comm/schedule/checker.h>
#include <tutti/comm/schedule/schedule.h>

#include <algorithm>

#include "algorithm_proofs.h"

namespace tutti::comm::algorithms {
namespace {

class OrderProofs : public testing::TestWithParam<Proof> {};

TEST_P(OrderProofs, OperandsStandInTheOrderOfRanksForAllWorldsAndRoots) {
  const auto& [name, op, build] = GetParam();
  for (const int p : worlds()) {
    for (const int root : roots(op, p)) {
      for (const std::size_t count : {std::size_t{1}, static_cast<std::size_t>(p) + 1}) {
        Problem problem{op, 0, p, count, root};
        if (op == OpKind::ReduceScatterV) problem.counts.assign(static_cast<std::size_t>(p), 2);
        problem.in_order = true;
        ASSERT_EQ(check(problem, schedules_of(problem, build)), "") << "world " << p << " root " << root;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OrderProofs,
                         testing::ValuesIn(proofs_of([](const Entry& entry) { return entry.has(kKeepsOrder); })),
                         [](const auto& test) { return test.param.name; });

TEST(OrderProofs, FixedOrderBracketsFromTheLeftAndOthersDoNot) {
  const std::vector<Proof> fixed = {{"", OpKind::AllReduce, fixed_all_reduce},
                                    {"", OpKind::AllReduce, star_all_reduce},
                                    {"", OpKind::Reduce, fixed_reduce},
                                    {"", OpKind::ReduceScatter, direct_reduce_scatter},
                                    {"", OpKind::ReduceScatterV, direct_reduce_scatter}};
  for (const auto& [name, op, build] : fixed) {
    for (const int p : worlds()) {
      for (const int root : roots(op, p)) {
        for (const std::size_t segment_count : {0, 2}) {
          Problem problem{op, 0, p, static_cast<std::size_t>(p) + 3, root, segment_count};
          if (op == OpKind::ReduceScatterV) problem.counts.assign(static_cast<std::size_t>(p), 2);
          problem.in_order = problem.left_fold = true;
          ASSERT_EQ(check(problem, schedules_of(problem, build)), "") << comm::name(op) << " " << p << " " << root;
        }
      }
    }
  }
  Problem problem{OpKind::AllReduce, 0, 4, 6};
  problem.left_fold = true;
  EXPECT_EQ(check(problem, schedules_of(problem, recursive_doubling_all_reduce)),
            "rank 0 output element 0: the operands are not bracketed from the left");
}

TEST(OrderProofs, OneRankAddsShortAllReducesInFixedOrder) {
  const auto steps_of_rank_1 = [](std::size_t count) {
    return select({.rank = 1, .world_size = 4, .count = count, .left_fold = true}, 4).steps.size();
  };
  for (const std::size_t count : {1, 4096}) EXPECT_EQ(steps_of_rank_1(count), 2u) << "sends its vector, gets the sum";
  EXPECT_GT(steps_of_rank_1(4097), 6u) << "adds a quarter";
}

TEST(OrderProofs, SelectTakesOnlyFixedBitsWhereTheyAreAskedFor) {
  for (const std::string name : {"", "ring", "rabenseifner", "binomial", "direct", "bruck"}) {
    const auto chosen = [&](OpKind op, std::size_t count = 9) {
      return select({.op = op, .world_size = 4, .count = count, .counts = {9, 9, 9, 9}, .left_fold = true}, 8, name)
          .algorithm;
    };
    EXPECT_EQ(chosen(OpKind::AllReduce), "star");
    EXPECT_EQ(chosen(OpKind::AllReduce, 10'000), "fixed");
    EXPECT_EQ(chosen(OpKind::Reduce), "fixed");
    EXPECT_EQ(chosen(OpKind::ReduceScatter), "direct");
    EXPECT_EQ(chosen(OpKind::ReduceScatterV), "direct");
  }
  EXPECT_EQ(select({.op = OpKind::AllGather, .world_size = 4, .count = 9, .left_fold = true}, 8, "ring").algorithm,
            "ring");
}

// Two ranks' elements are 0 + 1 however they are added, so that every algorithm that keeps the order has the fixed
// bits.
TEST(OrderProofs, TwoRanksHaveFixedBitsByEveryAlgorithmThatKeepsTheOrder) {
  for (const OpKind op : {OpKind::AllReduce, OpKind::Reduce, OpKind::ReduceScatter, OpKind::ReduceScatterV}) {
    std::vector<std::string_view> names = names_for(op);
    names.push_back("");
    for (const std::string_view name : names) {
      for (const std::size_t count : {3, 100'000}) {
        Problem problem{.op = op, .world_size = 2, .count = count, .root = op == OpKind::Reduce ? 1 : 0};
        if (op == OpKind::ReduceScatterV) problem.counts = {count, count + 1};
        problem.left_fold = true;
        const auto build = [&](const Problem& one) { return select(one, 4, name); };
        ASSERT_EQ(check(problem, schedules_of(problem, build)), "")
            << comm::name(op) << " by '" << name << "', " << count;
      }
    }
  }
  EXPECT_EQ(select({.op = OpKind::AllReduce, .world_size = 2, .count = 9, .left_fold = true}, 8).algorithm,
            "recursive_doubling");
  EXPECT_EQ(select({.op = OpKind::AllReduce, .world_size = 2, .count = 9, .left_fold = true}, 8, "ring").algorithm,
            "recursive_doubling")
      << "which does not keep the order";
}

TEST(OrderProofs, TheRingDoesNotKeepTheOrder) {
  Problem problem{OpKind::AllReduce, 0, 3, 6};
  EXPECT_EQ(check(problem, schedules_of(problem, ring_all_reduce)), "");
  problem.in_order = true;
  EXPECT_EQ(check(problem, schedules_of(problem, ring_all_reduce)),
            "rank 0 output element 0: the operands do not stand in the order of their ranks");
}

TEST(OrderProofs, SelectTakesOnlyWhatKeepsTheOrderWhereItIsAskedFor) {
  for (const OpKind op : {OpKind::AllReduce, OpKind::Reduce, OpKind::ReduceScatter, OpKind::ReduceScatterV}) {
    for (const std::string name : {"", "ring", "bruck", "recursive_doubling", "direct", "binomial"}) {
      for (const std::size_t count : {3u, 100'000u}) {
        Problem problem{.op = op, .world_size = 4, .count = count, .in_order = true};
        if (op == OpKind::ReduceScatterV) problem.counts.assign(4, count);
        const std::string_view chosen = select(problem, 8, name).algorithm;
        EXPECT_TRUE(chosen != "ring" && chosen != "bruck") << comm::name(op) << " " << name;
      }
    }
  }
}

// --- Proofs of the v-forms

/// Nothing at all, some with nothing, all with one rank, all different.
std::vector<std::vector<std::size_t>> count_lists(int world_size) {
  const auto p = static_cast<std::size_t>(world_size);
  std::vector<std::vector<std::size_t>> lists(4, std::vector<std::size_t>(p));
  for (std::size_t rank = 0; rank < p; ++rank) {
    lists[1][rank] = rank % 3;
    lists[3][rank] = (rank * 5 + 1) % 7;
  }
  lists[2][p / 2] = 9;
  return lists;
}

class VProofs : public testing::TestWithParam<Proof> {};

TEST_P(VProofs, HoldForAllWorldsRootsAndLists) {
  const auto& [name, op, build] = GetParam();
  for (const int p : worlds()) {
    for (const int root : {0, p / 2, p - 1}) {
      for (const auto& list : count_lists(p)) {
        for (const std::size_t segment_count : {0, 2}) {
          const Problem problem{op, 0, p, 0, root, segment_count, list};
          const auto schedules = schedules_of(problem, build);
          ASSERT_EQ(check(problem, schedules), "") << "world " << p << " root " << root << " segment " << segment_count;
          expect_no_empty_and_no_oversized_steps(problem, schedules);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, VProofs,
                         testing::ValuesIn(proofs_of([](const Entry& entry) { return has_counts(entry.op); })),
                         [](const auto& test) { return test.param.name; });

TEST(VProofs, AllToAllVForAllKindsOfTables) {
  const auto entries = {
      +[](std::size_t, std::size_t) { return std::size_t{0}; },
      +[](std::size_t from, std::size_t to) { return (from * 3 + to * 5) % 4; },
      +[](std::size_t from, std::size_t to) { return std::size_t{from == to ? 3u : 0u}; },
      +[](std::size_t from, std::size_t to) { return std::size_t{to == 0 ? from + 1 : 0}; },
  };
  for (const int p : worlds()) {
    for (const auto entry : entries) {
      Problem problem{.op = OpKind::AllToAllV, .world_size = p};
      for (std::size_t i = 0; i < static_cast<std::size_t>(p * p); ++i)
        problem.counts.push_back(entry(i / static_cast<std::size_t>(p), i % static_cast<std::size_t>(p)));
      const auto schedules = schedules_of(problem, pairwise_all_to_all);
      ASSERT_EQ(check(problem, schedules), "") << "world " << p;

      // A rank that knows only its own row and column does the same.
      Problem own{.op = OpKind::AllToAllV, .rank = p / 2, .world_size = p};
      for (int peer = 0; peer < p; ++peer) {
        own.counts.push_back(entry(static_cast<std::size_t>(own.rank), static_cast<std::size_t>(peer)));
        own.recv_counts.push_back(entry(static_cast<std::size_t>(peer), static_cast<std::size_t>(own.rank)));
      }
      const Schedule alone = pairwise_all_to_all(own);
      const Schedule& together = schedules[static_cast<std::size_t>(own.rank)];
      ASSERT_EQ(alone.steps.size(), together.steps.size());
      for (std::size_t i = 0; i < alone.steps.size(); ++i)
        ASSERT_EQ(describe(0, i, alone.steps[i]), describe(0, i, together.steps[i]));
    }
  }
}

TEST(VProofs, AllToAllVNeedsATable) {
  const Problem problem{.op = OpKind::AllToAllV, .world_size = 3, .counts = {1, 2, 3}};
  EXPECT_EQ(check(problem, std::vector<Schedule>(3)),
            "world size 3 needs a table of as many rows and columns, found 3 counts");
}

TEST(VProofs, NeedOneCountForEachRank) {
  const Problem problem{OpKind::GatherV, 0, 3, 0, 0, 0, {1, 2}};
  EXPECT_EQ(check(problem, std::vector<Schedule>(3)), "world size 3 needs as many counts, found 2");
}

}  // namespace
}  // namespace tutti::comm::algorithms
