#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm::algorithms {
namespace {

TEST(Select, TakesTheNameWhereItAppliesAndTheCheapestOtherwise) {
  const Problem small{OpKind::AllReduce, 0, 4, 16};
  const Problem large{OpKind::AllReduce, 0, 4, 1 << 20};
  EXPECT_EQ(select(small, 4).algorithm, "recursive_doubling");
  EXPECT_EQ(select(large, 4).algorithm, "rabenseifner");
  EXPECT_EQ(select({OpKind::AllReduce, 0, 5, 1 << 20}, 4).algorithm, "ring");
  EXPECT_EQ(select(small, 4, "ring").algorithm, "ring");
  EXPECT_EQ(select(large, 4, "recursive_doubling").algorithm, "recursive_doubling");
  EXPECT_EQ(select(small, 4, "binomial").algorithm, "binomial");
  EXPECT_EQ(select(small, 4, "chain").algorithm, "recursive_doubling") << "chain has no all_reduce";
  EXPECT_EQ(select({OpKind::AllGather, 0, 5, 16}, 4).algorithm, "bruck");
  EXPECT_EQ(select({OpKind::AllGather, 0, 4, 16}, 4).algorithm, "bruck");
  EXPECT_EQ(select({OpKind::Barrier, 0, 3}, 1, "ring").algorithm, "dissemination");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 4, 16}, 4).algorithm, "bruck");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 3, 1 << 20}, 4).algorithm, "ring");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 4, 16}, 4, "direct").algorithm, "direct");
  EXPECT_EQ(select({OpKind::AllToAll, 0, 16, 1}, 4).algorithm, "bruck");
  EXPECT_EQ(select({OpKind::AllToAll, 0, 16, 1 << 18}, 4).algorithm, "pairwise");
  EXPECT_EQ(select({OpKind::GatherV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "linear");
  EXPECT_EQ(select({OpKind::ScatterV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "linear");
  EXPECT_EQ(select({OpKind::AllGatherV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "ring");
  EXPECT_EQ(select({OpKind::ReduceScatterV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "ring");
  EXPECT_EQ(select({OpKind::ReduceScatterV, 0, 2, 0, 0, 0, {10, 16'384}}, 8).algorithm, "ring");
  EXPECT_EQ(select({.op = OpKind::AllToAllV, .world_size = 2, .counts = {1, 2}, .recv_counts = {1, 5}}, 4).algorithm,
            "pairwise");
  EXPECT_EQ(select({OpKind::Split, 0, 4, 2}, 8).algorithm, "bruck");
  for (const OpKind op : {OpKind::Broadcast, OpKind::Reduce}) {
    EXPECT_EQ(select({op, 0, 3, 8}, 4).algorithm, "binomial") << name(op);
  }
  const Problem long_broadcast{OpKind::Broadcast, 0, 8, 1 << 22, 0, 1 << 16};
  EXPECT_EQ(select(long_broadcast, 4).algorithm, "chain");
}

TEST(Select, TakesTheFewestMessagesWhereRanksOutnumberProcessors) {
  const auto chosen = [](int p, std::size_t count, int processors) {
    Tuning shared;
    shared.processors = processors;
    return std::string(choose({OpKind::AllReduce, 0, p, count}, 4, &shared));
  };
  EXPECT_EQ(chosen(8, 64 * 1024, 2), "binomial");
  EXPECT_EQ(chosen(16, 1, 8), "binomial") << "eight processors work at once";
  EXPECT_EQ(chosen(3, 64 * 1024, 2), "recursive_doubling") << "a ring has three times as many messages";
  EXPECT_EQ(chosen(9, 1, 8), "recursive_doubling") << "most ranks have a processor";
  EXPECT_EQ(chosen(8, 1 << 20, 2), choose({OpKind::AllReduce, 0, 8, 1 << 20}, 4)) << "long vectors as elsewhere";
}

TEST(Select, OneRankServesAllWhereManyShareFewProcessors) {
  Tuning shared;
  for (const OpKind op : {OpKind::AllReduce, OpKind::AllGather, OpKind::ReduceScatter, OpKind::Split, OpKind::Barrier,
                          OpKind::Shutdown}) {
    for (const int p : {3, 4, 8, 32}) {
      Problem problem{op, 0, p, 1};
      if (op == OpKind::AllReduce) problem.count = 8 * 1024;
      if (op == OpKind::AllGather || op == OpKind::ReduceScatter)
        problem.count = 8 * 1024 / static_cast<std::size_t>(p);
      shared.processors = 2;
      EXPECT_EQ(choose(problem, 4, &shared), "star") << name(op) << ", " << p << " ranks";
      EXPECT_NE(choose(problem, 4), "star") << name(op) << ", " << p << " ranks that have a processor each";
      if (std::exchange(problem.count, 2 * problem.count) > 1) {
        EXPECT_NE(choose(problem, 4, &shared), "star") << name(op) << ", more than 32 KiB";
      }
      shared.processors = 16;
      EXPECT_NE(choose(problem, 4, &shared), "star") << name(op) << ", " << p << " ranks of 16 processors";
    }
  }
}

TEST(Select, NoRankOfALargeWorldIsConnectedToAllOthers) {
  Tuning shared;
  shared.processors = 2;
  EXPECT_EQ(choose({OpKind::AllReduce, 0, 33, 1}, 4, &shared), "binomial");
  EXPECT_EQ(choose({OpKind::Barrier, 0, 33}, 1, &shared), "dissemination");
}

TEST(Select, ReducesWithoutPiecesWhereRanksOutnumberProcessors) {
  Tuning shared;
  for (const int p : {3, 4, 8}) {
    for (const std::size_t count : {1, 64 * 1024, 1 << 22}) {
      const Problem problem{OpKind::Reduce, 0, p, count, 0, 1 << 16};
      shared.processors = 2;
      EXPECT_EQ(choose(problem, 4, &shared), "binomial") << p << " ranks, " << count;
      shared.processors = 8;
      EXPECT_EQ(choose(problem, 4, &shared), choose(problem, 4)) << "each rank has a processor";
    }
  }
}

TEST(Select, HandsShortBroadcastsOnWhereRanksOutnumberProcessors) {
  const auto chosen = [](int p, std::size_t count, int processors) {
    Tuning shared;
    shared.processors = processors;
    return std::string(choose({OpKind::Broadcast, 0, p, count, 0, 1 << 16}, 4, &shared));
  };
  EXPECT_EQ(chosen(3, 1, 2), "chain");
  EXPECT_EQ(chosen(4, 8 * 1024, 2), "chain");
  EXPECT_EQ(chosen(8, 1, 2), "chain");
  EXPECT_EQ(chosen(9, 1, 2), "binomial") << "the last one would wait for long";
  EXPECT_EQ(chosen(4, 64 * 1024, 2), "binomial") << "longer ones are not sent in rows";
  EXPECT_EQ(chosen(4, 1, 4), "binomial") << "each rank has a processor";
  EXPECT_EQ(chosen(8, 1 << 22, 2), "chain") << "long vectors as elsewhere";
}

TEST(Select, HandsNoLongBlocksOnFromRankToRank) {
  for (const OpKind op : {OpKind::Gather, OpKind::Scatter}) {
    const auto chosen = [op](int p, std::size_t count, const Tuning* tuning = nullptr) {
      return std::string(choose({op, 0, p, count}, 4, tuning));
    };
    EXPECT_EQ(chosen(16, 16), "binomial") << "four messages at the root, not fifteen";
    for (const int p : {2, 3, 4, 8, 64}) EXPECT_EQ(chosen(p, 1 << 18), "direct") << name(op) << " world " << p;
    Tuning shared;
    shared.processors = 2;
    EXPECT_EQ(chosen(8, 16, &shared), "binomial");
    EXPECT_EQ(chosen(8, 4096, &shared), "direct") << "what is handed on takes a processor's time twice";
    shared.processors = 8;
    EXPECT_EQ(chosen(8, 4096, &shared), "binomial") << "each rank has a processor";
  }
  for (const OpKind op : {OpKind::AllGather, OpKind::ReduceScatter}) {
    for (const int p : {4, 8, 13, 64}) {
      EXPECT_EQ(choose({op, 0, p, 1 << 18}, 4), "ring") << name(op) << ": no copies, world " << p;
      EXPECT_EQ(choose({op, 0, p, 1 << 10}, 4), "bruck") << name(op) << " world " << p;
    }
  }
  for (const int p : {2, 3}) EXPECT_EQ(choose({OpKind::AllToAll, 0, p, 16}, 4), "pairwise") << "the same messages";
}

TEST(Select, LongAllReducesOfFewRanksGoWhereAllSendAndReceiveUntilTheEnd) {
  for (const int p : {2, 3, 4}) {
    for (const std::size_t count : {1 << 18, 1 << 20, 1 << 22, 1 << 24}) {
      Problem problem{OpKind::AllReduce, 0, p, count, 0, 1 << 16};
      const std::string_view elsewhere = choose(problem, 4);
      EXPECT_TRUE(elsewhere == "ring" || elsewhere == "rabenseifner") << elsewhere << ": " << p << " hosts, " << count;
      problem.hosts.assign(static_cast<std::size_t>(p), 0);
      const std::string_view here = choose(problem, 4);
      EXPECT_TRUE(here == "ring" || here == "rabenseifner") << here << ": " << p << " ranks of one host, " << count;
    }
  }
}

TEST(Select, TwoRanksReproducibleAllReducesGoBothWaysToo) {
  for (const std::size_t count : {std::size_t{1} << 18, std::size_t{1} << 20, std::size_t{1} << 24}) {
    for (const std::vector<int>& hosts : {std::vector<int>{}, {0, 0}, {0, 1}}) {
      const Problem problem{.op = OpKind::AllReduce,
                            .world_size = 2,
                            .count = count,
                            .segment_count = 1 << 16,
                            .hosts = hosts,
                            .in_order = true};
      EXPECT_EQ(choose(problem, sizeof(float)), "rabenseifner") << count << " on " << hosts.size() << " hosts";
    }
  }
}

TEST(Select, TakesHierarchicalOnesWhereRanksShareHosts) {
  const auto with_hosts = [](OpKind op, std::size_t count, int ranks_of_a_host) {
    Problem problem{op, 0, 16, count};
    for (int rank = 0; rank < 16; ++rank) problem.hosts.push_back(rank / ranks_of_a_host);
    return choose(problem, 4);
  };
  EXPECT_EQ(with_hosts(OpKind::AllReduce, 10'000'000, 4), "hierarchical_split");
  EXPECT_EQ(with_hosts(OpKind::Broadcast, 16, 4), "hierarchical");
  for (const int ranks_of_a_host : {1, 16}) {  // none share one, or all do
    for (const std::size_t count : {16, 10'000'000}) {
      test::expect_absent(std::string(with_hosts(OpKind::AllReduce, count, ranks_of_a_host)), {"hierarchical"});
    }
  }
}

std::string refusal_of(const Problem& problem, const std::string& algorithm = "") {
  return test::text_of(ErrorCode::InvalidArgument, [&] { select(problem, 4, algorithm); });
}

TEST(Select, RefusesAWrongNumberOfHosts) {
  EXPECT_EQ(refusal_of({OpKind::AllReduce, 0, 3, 8, 0, 0, {}, {0, 1}}),
            "a world of 3 ranks needs as many hosts, found 2");
}

TEST(Select, TakesEveryNameForItsOperation) {
  for (const OpKind op : {OpKind::Broadcast, OpKind::Reduce, OpKind::AllReduce, OpKind::Gather, OpKind::AllGather,
                          OpKind::Scatter, OpKind::Barrier}) {
    EXPECT_FALSE(names_for(op).empty()) << name(op);
    for (const std::string_view algorithm : names_for(op)) {
      EXPECT_EQ(select({op, 0, 4, 8}, 4, algorithm).algorithm, algorithm) << name(op);
    }
  }
  EXPECT_TRUE(names_for(OpKind::Send).empty());
}

TEST(Select, WhatRotatesIsTheSameOnAllRanks) {
  int rotating = 0;
  for (const OpKind op : {OpKind::AllReduce, OpKind::AllGather, OpKind::Barrier, OpKind::Broadcast,
                          OpKind::ReduceScatter, OpKind::AllToAll}) {
    for (const std::string_view algorithm : names_for(op)) {
      for (const int p : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16}) {
        Problem problem{op, 0, p, static_cast<std::size_t>(5 * p), 0, 2};
        if (!rotates(problem, algorithm)) continue;
        ++rotating;
        const Schedule first = select(problem, 4, algorithm);
        for (problem.rank = 1; problem.rank < p; ++problem.rank) {
          const Schedule other = select(problem, 4, algorithm);
          ASSERT_EQ(other.steps.size(), first.steps.size()) << algorithm << " world " << p;
          for (std::size_t i = 0; i < first.steps.size(); ++i) {
            const Step& a = first.steps[i];
            const Step& b = other.steps[i];
            EXPECT_EQ(a.kind, b.kind);
            EXPECT_EQ(a.peer < 0 ? a.peer : (a.peer + problem.rank) % p, b.peer);
            EXPECT_EQ(a.source.count, b.source.count);
            EXPECT_EQ(a.target.count, b.target.count);
            EXPECT_EQ(a.after, b.after);
          }
        }
      }
    }
  }
  EXPECT_EQ(rotating, 8 * 11);
  EXPECT_FALSE(rotates({OpKind::AllReduce, 0, 4, 10}, "ring")) << "chunks of 3 and of 2";
  EXPECT_FALSE(rotates({OpKind::AllReduce, 0, 4, 8}, "bruck")) << "no such all_reduce";
}

TEST(Select, RefusesUnknownNamesListingTheKnownOnes) {
  EXPECT_EQ(refusal_of({OpKind::AllReduce, 0, 2, 1}, "rign"),
            "unknown algorithm \"rign\"; known are ring, recursive_doubling, rabenseifner, bruck, "
            "pairwise, binomial, chain, double_tree, direct, star, linear, dissemination, "
            "hierarchical, hierarchical_split, or \"\" to choose by size");
}

TEST(Select, RefusesPointToPoint) { refusal_of({OpKind::Send, 0, 2, 1}); }

}  // namespace
}  // namespace tutti::comm::algorithms
