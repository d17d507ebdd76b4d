#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tutti::comm::algorithms {
namespace {

TEST(Select, TakesTheNameWhereItAppliesAndTheSizeOtherwise) {
  const Problem small{OpKind::AllReduce, 0, 4, 16};
  const Problem large{OpKind::AllReduce, 0, 4, 1 << 20};
  EXPECT_EQ(select(small, 4).algorithm, "recursive_doubling");
  EXPECT_EQ(select(large, 4).algorithm, "ring");
  EXPECT_EQ(select(small, 4, "ring").algorithm, "ring");
  EXPECT_EQ(select(large, 4, "recursive_doubling").algorithm, "recursive_doubling");
  EXPECT_EQ(select(small, 4, "binomial").algorithm, "recursive_doubling") << "binomial has no all_reduce";
  EXPECT_EQ(select({OpKind::AllGather, 0, 3, 16}, 4).algorithm, "bruck");
  EXPECT_EQ(select({OpKind::AllGather, 0, 4, 16}, 4).algorithm, "recursive_doubling");
  EXPECT_EQ(select({OpKind::AllGather, 0, 4, 1 << 20}, 4).algorithm, "ring");
  EXPECT_EQ(select({OpKind::Barrier, 0, 3}, 1, "ring").algorithm, "dissemination");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 4, 16}, 4).algorithm, "recursive_halving");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 3, 16}, 4).algorithm, "direct");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 3, 1 << 20}, 4).algorithm, "ring");
  EXPECT_EQ(select({OpKind::ReduceScatter, 0, 4, 16}, 4, "direct").algorithm, "direct");
  EXPECT_EQ(select({OpKind::AllToAll, 0, 4, 1}, 4).algorithm, "pairwise");
  EXPECT_EQ(select({OpKind::AllToAll, 0, 16, 1}, 4).algorithm, "bruck");
  EXPECT_EQ(select({OpKind::AllToAll, 0, 16, 1 << 10}, 4).algorithm, "pairwise");
  EXPECT_EQ(select({OpKind::GatherV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "linear");
  EXPECT_EQ(select({OpKind::ScatterV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "linear");
  EXPECT_EQ(select({OpKind::AllGatherV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "ring");
  EXPECT_EQ(select({OpKind::ReduceScatterV, 0, 2, 0, 0, 0, {1, 2}}, 4).algorithm, "direct");
  EXPECT_EQ(select({OpKind::ReduceScatterV, 0, 2, 0, 0, 0, {10, 16'384}}, 8).algorithm, "ring");
  EXPECT_EQ(select({OpKind::AllToAllV, 0, 2, 0, 0, 0, {1, 2}, {1, 5}}, 4).algorithm, "pairwise");
  EXPECT_EQ(select({OpKind::Split, 0, 2, 2}, 8).algorithm, "recursive_doubling");
  for (const OpKind op : {OpKind::Broadcast, OpKind::Reduce, OpKind::Gather, OpKind::Scatter}) {
    EXPECT_EQ(select({op, 0, 3, 8}, 4).algorithm, "binomial") << name(op);
  }
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
  for (const OpKind op : {OpKind::AllReduce, OpKind::AllGather, OpKind::Barrier, OpKind::Broadcast}) {
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
  EXPECT_EQ(rotating, 4 * 11);
  EXPECT_FALSE(rotates({OpKind::AllReduce, 0, 4, 10}, "ring")) << "chunks of 3 and of 2";
  EXPECT_FALSE(rotates({OpKind::AllReduce, 0, 4, 8}, "bruck")) << "no such all_reduce";
}

TEST(Select, RefusesUnknownNamesListingTheKnownOnes) {
  try {
    select({OpKind::AllReduce, 0, 2, 1}, 4, "rign");
    FAIL() << "an unknown name was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(
        error.what(),
        "unknown algorithm \"rign\"; known are ring, recursive_doubling, recursive_halving, rabenseifner, bruck, "
        "pairwise, binomial, chain, van_de_geijn, direct, linear, dissemination, or \"\" to choose by size");
  }
}

TEST(Select, RefusesPointToPoint) {
  try {
    select({OpKind::Send, 0, 2, 1}, 4);
    FAIL() << "a schedule was built for a message";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
  }
}

}  // namespace
}  // namespace tutti::comm::algorithms
