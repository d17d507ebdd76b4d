// The algorithms, proved by the checker over a grid of worlds, roots, counts and segments. hierarchical_test.cc does
// the same for those that know of hosts, special_proofs_test.cc for the v-forms and those that keep the order of ranks.

#include "algorithm_proofs.h"

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/schedule/checker.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tutti::comm::algorithms {
namespace {

std::vector<std::size_t> counts(OpKind op, int world_size) {
  if (op == OpKind::Barrier) return {0};
  // Their buffers hold p blocks of this at each rank, and their algorithms do not look at how p divides it.
  if (op == OpKind::ReduceScatter || op == OpKind::AllToAll) return {0, 1, 2, 7};
  const auto p = static_cast<std::size_t>(world_size);
  return {0, 1, p - 1, p, p + 1, 13, 3 * p + 2};
}

std::vector<std::size_t> segment_counts(std::size_t count) {
  if (count < 2) return {0};
  return {0, count / 2 + 1, std::max<std::size_t>(count / 5, 2)};
}

class Proofs : public testing::TestWithParam<Proof> {};

/// The rest of the worlds up to 64, and some large ones, with few elements.
TEST_P(Proofs, HoldForFewElementsInWorldsUpTo1024) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::vector<int> some = {47, 97};
#else
  std::vector<int> some = {65, 96, 127, 128, 255, 513, 1000, 1024};
  for (int p = kLargestWorld + 1; p < kOneMoreWorld; ++p) some.push_back(p);
#endif
  const auto& [name, op, build] = GetParam();
  const bool has_blocks = op != OpKind::Broadcast && op != OpKind::Reduce && op != OpKind::AllReduce;
  for (const int p : some) {
    if (has_blocks && p > 128) continue;  // buffers of p blocks at p ranks: the checker's memory grows with the square
    for (const int root : {0, 2 * p / 3}) {
      const Problem problem{op, 0, p, op == OpKind::Barrier ? 0u : has_blocks ? 1u : 5u, root, 2};
      ASSERT_EQ(check(problem, schedules_of(problem, build)), "") << "world " << p << " root " << root;
    }
  }
}

TEST_P(Proofs, HoldForAllWorldsRootsCountsAndSegments) {
  const auto& [name, op, build] = GetParam();
  for (const int p : worlds()) {
    for (const int root : roots(op, p)) {
      for (const std::size_t count : counts(op, p)) {
        for (const std::size_t segment_count : segment_counts(count)) {
          const Problem problem{op, 0, p, count, root, segment_count};
          const auto schedules = schedules_of(problem, build);
          ASSERT_EQ(check(problem, schedules), "")
              << "world " << p << " root " << root << " count " << count << " segment_count " << segment_count;
          expect_no_empty_and_no_oversized_steps(problem, schedules);
        }
      }
    }
  }
}

std::vector<Proof> flat_algorithms() {
  std::vector<Proof> result = proofs_of([](const Entry& entry) {
    return !has_counts(entry.op) && entry.op != OpKind::AllToAllV && !entry.has(kNeedsHosts);
  });
  result.push_back({"fixed_all_reduce", OpKind::AllReduce, fixed_all_reduce});
  result.push_back({"fixed_reduce", OpKind::Reduce, fixed_reduce});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Proofs, testing::ValuesIn(flat_algorithms()),
                         [](const auto& test) { return test.param.name; });

// --- What an algorithm promises besides being right

TEST(DoubleTree, NoRankSendsMoreThanTheVectorOncePerDirection) {
  for (const int p : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16}) {
    const std::size_t n = 240;
    const struct {
      OpKind op;
      Schedule (*build)(const Problem&);
      std::size_t times;
    } cases[] = {{OpKind::Broadcast, double_tree_broadcast, 1},
                 {OpKind::Reduce, double_tree_reduce, 1},
                 {OpKind::AllReduce, double_tree_all_reduce, 2}};
    for (const auto& [op, build, times] : cases) {
      for (const Schedule& schedule : schedules_of({op, 0, p, n, p / 2, 7}, build)) {
        std::size_t sent = 0;
        std::size_t received = 0;
        for (const Step& step : schedule.steps) {
          if (step.kind == Step::Kind::Send) sent += step.source.count;
          if (step.kind == Step::Kind::Recv || step.kind == Step::Kind::RecvReduce) received += step.target.count;
        }
        EXPECT_LE(sent, times * n) << name(op) << " world " << p;
        EXPECT_LE(received, times * n) << name(op) << " world " << p;
        EXPECT_LE(schedule.scratch_count, n / 2);
      }
    }
  }
}

TEST(Bruck, SendsOneMessageARound) {
  const auto sends_of = [](const Schedule& schedule) { return std::ranges::count_if(schedule.steps, sends); };
  EXPECT_EQ(sends_of(bruck_all_to_all({OpKind::AllToAll, 0, 13, 3})), 4);
  EXPECT_EQ(sends_of(bruck_all_gather({OpKind::AllGather, 0, 13, 3})), 4);
  EXPECT_EQ(sends_of(bruck_reduce_scatter({OpKind::ReduceScatter, 0, 13, 3})), 4);
}

}  // namespace
}  // namespace tutti::comm::algorithms
