// The hierarchical algorithms, proved by the checker over layouts of ranks on hosts.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/hosts.h>
#include <tutti/comm/schedule/checker.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithm_proofs.h"

namespace tutti::comm::algorithms {
namespace {

constexpr int kLargestHostedWorld = test::kFullRun ? 64 : 17;
const std::vector<int> kLargeWorlds =
    test::kFullRun ? std::vector{100, 128, 255, 513, 1000, 1024} : std::vector{40, 255};
constexpr int kLargestHostedWorldWithAllRoots = 12;

/// Rank -> host.
using Layout = std::vector<int>;

struct NamedLayout {
  std::string name;
  Layout hosts;
};

template <typename F>
NamedLayout layout(std::string name, int world_size, F&& host_of) {
  NamedLayout result{std::move(name), {}};
  for (int rank = 0; rank < world_size; ++rank) result.hosts.push_back(host_of(rank));
  return result;
}

std::vector<NamedLayout> layouts(int p) {
  return {
      {"no hosts", {}},
      layout("one rank a host", p, [](int rank) { return rank; }),
      layout("even hosts", p, [p](int rank) { return rank / (p % 4 == 0 ? 4 : 3); }),
      layout("interleaved", p, [](int rank) { return rank % 3; }),
      layout("growing hosts", p,
             [](int rank) {
               int host = 0;
               for (int first = 0; first + host + 1 <= rank; ++host) first += host + 1;
               return host;
             }),
      layout("one large host among single ranks", p, [p](int rank) { return rank < p / 2 ? rank : -7; }),
      layout("scattered", p, [](int rank) { return rank * rank * 7 % 11 % 5; }),
  };
}

class HierarchicalProofs : public testing::TestWithParam<Proof> {
 protected:
  bool has_root() const { return GetParam().op == OpKind::Broadcast || GetParam().op == OpKind::Reduce; }

  std::vector<int> roots(int p) const {
    if (!has_root()) return {0};
    if (p > kLargestHostedWorldWithAllRoots) return {0, p / 2, p - 1};
    std::vector<int> result;
    for (int root = 0; root < p; ++root) result.push_back(root);
    return result;
  }

  void prove(const NamedLayout& layout, int p, int root, std::size_t count) {
    for (const std::size_t segment_count : {0, 2}) {
      const Problem problem{GetParam().op, 0, p, count, root, segment_count, {}, layout.hosts};
      const auto schedules = schedules_of(problem, GetParam().build);
      ASSERT_EQ(check(problem, schedules), "")
          << layout.name << ", world " << p << " root " << root << " count " << count << " segment " << segment_count;
      expect_no_empty_and_no_oversized_steps(problem, schedules);
    }
  }
};

TEST_P(HierarchicalProofs, HoldForAllWorldsLayoutsRootsAndCounts) {
  for (const int p : test::proven_worlds(kLargestHostedWorld)) {
    for (const NamedLayout& layout : layouts(p)) {
      for (const int root : roots(p)) {
        for (const std::size_t count : {0, 1, 3, 14}) prove(layout, p, root, count);
      }
    }
  }
}

TEST_P(HierarchicalProofs, HoldForLargeWorlds) {
  for (const int p : kLargeWorlds) {
    for (const NamedLayout& layout : layouts(p)) prove(layout, p, has_root() ? 2 * p / 3 : 0, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, HierarchicalProofs,
                         testing::ValuesIn(proofs_of([](const Entry& entry) { return entry.has(kNeedsHosts); })),
                         [](const auto& test) { return test.param.name; });

/// Elements that leave a host, over all its ranks; the most of any host.
std::size_t most_elements_out_of_a_host(const Problem& problem, Schedule (*build)(const Problem&)) {
  std::vector<std::size_t> sent(problem.hosts.size());
  const auto schedules = schedules_of(problem, build);
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    for (const Step& step : schedules[rank].steps) {
      if (step.kind != Step::Kind::Send) continue;
      const int here = problem.hosts[rank];
      if (problem.hosts[static_cast<std::size_t>(step.peer)] != here)
        sent[static_cast<std::size_t>(here)] += step.source.count;
    }
  }
  return *std::max_element(sent.begin(), sent.end());
}

TEST(Hierarchical, SendsAsLittleBetweenHostsAsItSays) {
  // 4 hosts of 4 ranks, interleaved: the flat algorithms cross hosts all the time.
  const Layout interleaved = layout("", 16, [](int rank) { return rank % 4; }).hosts;
  const auto most = [&](OpKind op, std::size_t count, Schedule (*build)(const Problem&)) {
    return most_elements_out_of_a_host({op, 0, 16, count, 0, 0, {}, interleaved}, build);
  };
  EXPECT_EQ(most(OpKind::Broadcast, 100, hierarchical_broadcast), 200u);         // lg 4 messages at the root
  EXPECT_EQ(most(OpKind::Reduce, 100, hierarchical_reduce), 100u);               // one message
  EXPECT_EQ(most(OpKind::AllReduce, 100, hierarchical_all_reduce), 200u);        // lg 4 messages of the leader
  EXPECT_EQ(most(OpKind::AllReduce, 160, hierarchical_split_all_reduce), 240u);  // 2n (h - 1)/h of all ranks
  EXPECT_EQ(most(OpKind::AllReduce, 160, ring_all_reduce), 1200u);               // 2n (p - 1)/p of each of 4 ranks
}

TEST(Hierarchical, SplitIsAsBusyAsTheRingWithinOneHost) {
  const Problem problem{OpKind::AllReduce, 0, 6, 60};
  for (const Schedule& schedule : schedules_of(problem, hierarchical_split_all_reduce)) {
    std::size_t sent = 0;
    for (const Step& step : schedule.steps) sent += step.source.count;
    EXPECT_EQ(sent, 2u * 60 * 5 / 6);
  }
}

TEST(Hosts, AreNumberedByTheirLowestRankAndLedByTheRoot) {
  const Problem problem{OpKind::Broadcast, 4, 6, 1, 4, 0, {}, {9, 2, 9, 2, 9, 5}};
  const Hosts hosts(problem, 4);
  EXPECT_EQ(hosts.members, (std::vector<std::vector<int>>{{0, 2, 4}, {1, 3}, {5}}));
  EXPECT_EQ(hosts.leaders, (std::vector<int>{4, 1, 5}));
  EXPECT_TRUE(hosts.is_leader());
  EXPECT_EQ(hosts.place, 2);
  EXPECT_EQ(hosts.host_of(3), 1);
  EXPECT_EQ(hosts.smallest(), 1);
  EXPECT_EQ(hosts.largest(), 3);
}

}  // namespace
}  // namespace tutti::comm::algorithms
