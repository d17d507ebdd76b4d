#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/checker.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace tutti::comm::algorithms {
namespace {

/// "2.7": element 7 of rank 2's input.
std::string symbol(int rank, std::size_t element) {
  std::string text = std::to_string(rank);
  return text.append(1, '.').append(std::to_string(element));
}

// Runs the schedules of all ranks over symbols: an element is a symbol, a reduction joins two to an expression.
// Messages are unbounded queues; the checker is there for the stricter rules.
class Interpreter {
 public:
  Interpreter(Problem problem, const std::vector<Schedule>& schedules) : problem_(problem), schedules_(schedules) {
    for (int rank = 0; rank < problem.world_size; ++rank) {
      const bool is_root = rank == problem.root;
      const std::size_t n = problem.count;
      const std::size_t all = n * static_cast<std::size_t>(problem.world_size);
      const bool gathers = problem.op == OpKind::AllGather || problem.op == OpKind::AllToAll ||
                           (problem.op == OpKind::Gather && is_root);
      const bool cuts = problem.op == OpKind::ReduceScatter || problem.op == OpKind::AllToAll;
      Memory memory;
      fill(memory[BufferId::Input], rank, cuts ? all : problem.op == OpKind::Scatter ? (is_root ? all : 0) : n);
      fill(memory[BufferId::Output], rank, gathers ? all : n);
      memory[BufferId::Scratch].resize(schedules[static_cast<std::size_t>(rank)].scratch_count);
      memories_.push_back(std::move(memory));
    }
  }

  /// Output of every rank.
  std::vector<std::vector<std::string>> run() {
    std::vector<std::size_t> next(schedules_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
        while (next[rank] < schedules_[rank].steps.size() && perform(static_cast<int>(rank), next[rank])) {
          ++next[rank];
          moved = true;
        }
      }
    }
    std::vector<std::vector<std::string>> outputs;
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      EXPECT_EQ(next[rank], schedules_[rank].steps.size()) << "rank " << rank << " is stuck";
      outputs.push_back(memories_[rank][BufferId::Output]);
    }
    return outputs;
  }

 private:
  using Cells = std::vector<std::string>;
  using Memory = std::map<BufferId, Cells>;

  static void fill(Cells& cells, int rank, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) cells.push_back(symbol(rank, i));
  }

  static std::string join(const std::string& first, const std::string& second) {
    std::string sum(1, '(');
    sum.append(first).append(1, '+').append(second).append(1, ')');
    return sum;
  }

  Cells read(int rank, const Slice& slice) {
    const Cells& cells = memories_[static_cast<std::size_t>(rank)][slice.buffer];
    EXPECT_LE(slice.offset + slice.count, cells.size());
    const auto first = cells.begin() + static_cast<std::ptrdiff_t>(slice.offset);
    return Cells(first, first + static_cast<std::ptrdiff_t>(slice.count));
  }

  void write(int rank, const Step& step, const Cells& values) {
    Cells& cells = memories_[static_cast<std::size_t>(rank)][step.target.buffer];
    ASSERT_EQ(values.size(), step.target.count);
    ASSERT_LE(step.target.offset + step.target.count, cells.size());
    const bool reduces = step.kind == Step::Kind::RecvReduce || step.kind == Step::Kind::Reduce;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::string& cell = cells[step.target.offset + i];
      if (reduces) {
        cell = step.incoming_first ? join(values[i], cell) : join(cell, values[i]);
      } else {
        cell = values[i];
      }
    }
  }

  bool perform(int rank, std::size_t index) {
    const Step& step = schedules_[static_cast<std::size_t>(rank)].steps[index];
    switch (step.kind) {
      case Step::Kind::Send:
        wires_[{rank, step.peer}].push_back(read(rank, step.source));
        return true;
      case Step::Kind::Copy:
      case Step::Kind::Reduce:
        write(rank, step, read(rank, step.source));
        return true;
      case Step::Kind::Recv:
      case Step::Kind::RecvReduce:
        break;
    }
    auto& wire = wires_[{step.peer, rank}];
    if (wire.empty()) return false;
    write(rank, step, wire.front());
    wire.pop_front();
    return true;
  }

  Problem problem_;
  const std::vector<Schedule>& schedules_;
  std::vector<Memory> memories_;
  std::map<std::pair<int, int>, std::deque<Cells>> wires_;
};

std::vector<Schedule> schedules_of(Problem problem, Schedule (*build)(const Problem&)) {
  std::vector<Schedule> schedules;
  for (problem.rank = 0; problem.rank < problem.world_size; ++problem.rank) schedules.push_back(build(problem));
  return schedules;
}

std::vector<std::vector<std::string>> run(const Problem& problem, Schedule (*build)(const Problem&)) {
  const auto schedules = schedules_of(problem, build);
  return Interpreter(problem, schedules).run();
}

/// "((0.3+1.3)+2.3)" without brackets: which operands, in which order.
std::string flat(std::string expression) {
  std::erase_if(expression, [](char c) { return c == '(' || c == ')'; });
  return expression;
}

std::string ranks_in_order(int first, int world_size, std::size_t element) {
  std::string result;
  for (int i = 0; i < world_size; ++i) {
    if (i > 0) result += '+';
    result += symbol((first + i) % world_size, element);
  }
  return result;
}

constexpr int kWorlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16};

TEST(RecursiveDoubling, AllReduceAddsInRankOrderAndAlikeOnAllRanks) {
  for (const int p : kWorlds) {
    const auto outputs = run({OpKind::AllReduce, 0, p, 5, 0, 2}, recursive_doubling_all_reduce);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(flat(outputs[0][i]), ranks_in_order(0, p, i));
    for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]) << "world " << p;
  }
}

TEST(Ring, AllReduceEndsEachChunkAtItsOwnerAndAlikeOnAllRanks) {
  for (const int p : kWorlds) {
    const auto n = static_cast<std::size_t>(p);
    const auto outputs = run({OpKind::AllReduce, 0, p, n, 0, 0}, ring_all_reduce);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(flat(outputs[0][i]), ranks_in_order(static_cast<int>(i) + 1, p, i));
    for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]) << "world " << p;
  }
}

TEST(Binomial, ReduceAddsInRankOrderForEveryRoot) {
  for (const int p : kWorlds) {
    for (int root = 0; root < p; ++root) {
      const auto outputs = run({OpKind::Reduce, 0, p, 3, root, 2}, binomial_reduce);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(flat(outputs[static_cast<std::size_t>(root)][i]), ranks_in_order(0, p, i));
      }
    }
  }
}

TEST(Rabenseifner, AllReduceAddsInRankOrderAndAlikeOnAllRanks) {
  for (const int p : kWorlds) {
    const auto outputs = run({OpKind::AllReduce, 0, p, 21, 0, 2}, rabenseifner_all_reduce);
    for (std::size_t i = 0; i < 21; ++i) EXPECT_EQ(flat(outputs[0][i]), ranks_in_order(0, p, i));
    for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]) << "world " << p;
  }
}

TEST(Rabenseifner, HasTheBitsOfRecursiveDoubling) {
  for (const int p : kWorlds) {
    const Problem problem{OpKind::AllReduce, 0, p, 21, 0, 2};
    EXPECT_EQ(run(problem, rabenseifner_all_reduce), run(problem, recursive_doubling_all_reduce)) << "world " << p;
  }
}

TEST(Direct, ReduceAddsInRankOrderForEveryRoot) {
  for (const int p : kWorlds) {
    for (int root = 0; root < p; ++root) {
      const auto outputs = run({OpKind::Reduce, 0, p, 3, root, 2}, direct_reduce);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(flat(outputs[static_cast<std::size_t>(root)][i]), ranks_in_order(0, p, i));
      }
    }
  }
}

TEST(Chain, ReduceAddsInTheOrderOfTheRowForEveryRoot) {
  for (const int p : kWorlds) {
    for (int root = 0; root < p; ++root) {
      const auto outputs = run({OpKind::Reduce, 0, p, 3, root, 2}, chain_reduce);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(flat(outputs[static_cast<std::size_t>(root)][i]), ranks_in_order(root, p, i));
      }
    }
  }
}

TEST(DoubleTree, NoRankSendsMoreThanTheVectorOncePerDirection) {
  for (const int p : kWorlds) {
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

TEST(VanDeGeijn, NoRankSendsTheVectorMoreThanTwice) {
  for (const int p : kWorlds) {
    const auto n = static_cast<std::size_t>(12 * p);
    for (const Schedule& schedule : schedules_of({OpKind::Broadcast, 0, p, n, p / 2}, van_de_geijn_broadcast)) {
      std::size_t sent = 0;
      for (const Step& step : schedule.steps) sent += step.source.count;
      EXPECT_LE(sent, 2 * n / static_cast<std::size_t>(p) * static_cast<std::size_t>(p - 1)) << "world " << p;
    }
  }
}

TEST(AllGather, LaysBlocksInRankOrder) {
  for (const auto build : {ring_all_gather, recursive_doubling_all_gather, bruck_all_gather}) {
    for (const int p : kWorlds) {
      const auto outputs = run({OpKind::AllGather, 0, p, 3, 0, 2}, build);
      std::vector<std::string> expected;
      for (int rank = 0; rank < p; ++rank) {
        for (std::size_t i = 0; i < 3; ++i) expected.push_back(symbol(rank, i));
      }
      for (const auto& output : outputs) EXPECT_EQ(output, expected) << "world " << p;
    }
  }
}

TEST(ReduceScatter, EndsEachBlockAtItsRankInTheOrderThatTheAlgorithmSays) {
  for (const int p : kWorlds) {
    const auto ring = run({OpKind::ReduceScatter, 0, p, 3, 0, 2}, ring_reduce_scatter);
    const auto direct = run({OpKind::ReduceScatter, 0, p, 3, 0, 2}, direct_reduce_scatter);
    for (int rank = 0; rank < p; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(flat(ring[r][i]), ranks_in_order(rank + 1, p, 3 * r + i)) << "world " << p;
        EXPECT_EQ(flat(direct[r][i]), ranks_in_order(0, p, 3 * r + i)) << "world " << p;
      }
    }
  }
}

TEST(ReduceScatter, RecursiveHalvingAddsNearSumsToFarOnes) {
  const auto outputs = run({OpKind::ReduceScatter, 0, 4, 1, 0, 0}, recursive_halving_reduce_scatter);
  EXPECT_EQ(outputs[0][0], "((0.0+2.0)+(1.0+3.0))");
  EXPECT_EQ(outputs[3][0], "((0.3+2.3)+(1.3+3.3))");
  EXPECT_EQ(recursive_halving_reduce_scatter({OpKind::ReduceScatter, 0, 6, 1}).algorithm, "direct");
}

TEST(AllToAll, TransposesBlocks) {
  for (const auto build : {pairwise_all_to_all, bruck_all_to_all}) {
    for (const int p : kWorlds) {
      const auto outputs = run({OpKind::AllToAll, 0, p, 3, 0, 2}, build);
      for (int rank = 0; rank < p; ++rank) {
        std::vector<std::string> expected;
        for (int from = 0; from < p; ++from) {
          for (std::size_t i = 0; i < 3; ++i) expected.push_back(symbol(from, 3 * static_cast<std::size_t>(rank) + i));
        }
        EXPECT_EQ(outputs[static_cast<std::size_t>(rank)], expected) << "world " << p << " rank " << rank;
      }
    }
  }
}

TEST(AllToAll, BruckSendsOneMessageARound) {
  const auto schedule = bruck_all_to_all({OpKind::AllToAll, 0, 13, 3});
  const auto sends = std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                   [](const Step& step) { return step.kind == Step::Kind::Send; });
  EXPECT_EQ(sends, 4);
}

TEST(Binomial, GatherScatterAndBroadcastForEveryRoot) {
  for (const int p : kWorlds) {
    for (int root = 0; root < p; ++root) {
      const auto gathered = run({OpKind::Gather, 0, p, 2, root, 1}, binomial_gather)[static_cast<std::size_t>(root)];
      const auto scattered = run({OpKind::Scatter, 0, p, 2, root, 1}, binomial_scatter);
      const auto sent = run({OpKind::Broadcast, 0, p, 2, root, 1}, binomial_broadcast);
      for (int rank = 0; rank < p; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(gathered[2 * r + i], symbol(rank, i));
          EXPECT_EQ(scattered[r][i], symbol(root, 2 * r + i));
          EXPECT_EQ(sent[r][i], symbol(root, i));
        }
      }
    }
  }
}

// --- Proofs: the checker over a grid of worlds, roots, counts and segments
// ---------------------------------------------

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLargestWorld = 13;  // sanitizers make the checker some 20 times slower
constexpr int kOneMoreWorld = 24;
#else
constexpr int kLargestWorld = 33;
constexpr int kOneMoreWorld = 64;
#endif
constexpr int kLargestWorldWithAllRoots = 17;

struct Proof {
  std::string name;
  OpKind op;
  Schedule (*build)(const Problem&);
};

std::vector<int> worlds() {
  std::vector<int> result;
  for (int p = 1; p <= kLargestWorld; ++p) result.push_back(p);
  result.push_back(kOneMoreWorld);
  return result;
}

std::vector<int> roots(OpKind op, int p) {
  const bool rooted = op == OpKind::Broadcast || op == OpKind::Reduce || op == OpKind::Gather || op == OpKind::Scatter;
  if (!rooted) return {0};
  if (p > kLargestWorldWithAllRoots) return {0, 1, p / 2, p - 1};
  std::vector<int> result;
  for (int root = 0; root < p; ++root) result.push_back(root);
  return result;
}

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

/// What the header promises and the checker does not ask for.
void expect_no_empty_and_no_oversized_steps(const Problem& problem, const Schedule& schedule) {
  if (problem.op == OpKind::Barrier) return;
  if (problem.count == 0) {
    EXPECT_TRUE(schedule.steps.empty());
  }
  for (const Step& step : schedule.steps) {
    const std::size_t moved = step.kind == Step::Kind::Send ? step.source.count : step.target.count;
    EXPECT_GT(moved, 0u);
    EXPECT_TRUE(problem.segment_count == 0 || moved <= problem.segment_count) << moved;
  }
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
          for (const Schedule& schedule : schedules) expect_no_empty_and_no_oversized_steps(problem, schedule);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, Proofs,
    testing::Values(Proof{"ring_all_reduce", OpKind::AllReduce, ring_all_reduce},
                    Proof{"ring_all_gather", OpKind::AllGather, ring_all_gather},
                    Proof{"recursive_doubling_all_reduce", OpKind::AllReduce, recursive_doubling_all_reduce},
                    Proof{"recursive_doubling_all_gather", OpKind::AllGather, recursive_doubling_all_gather},
                    Proof{"rabenseifner_all_reduce", OpKind::AllReduce, rabenseifner_all_reduce},
                    Proof{"bruck_all_gather", OpKind::AllGather, bruck_all_gather},
                    Proof{"binomial_broadcast", OpKind::Broadcast, binomial_broadcast},
                    Proof{"binomial_reduce", OpKind::Reduce, binomial_reduce},
                    Proof{"binomial_gather", OpKind::Gather, binomial_gather},
                    Proof{"binomial_scatter", OpKind::Scatter, binomial_scatter},
                    Proof{"chain_broadcast", OpKind::Broadcast, chain_broadcast},
                    Proof{"chain_reduce", OpKind::Reduce, chain_reduce},
                    Proof{"double_tree_broadcast", OpKind::Broadcast, double_tree_broadcast},
                    Proof{"double_tree_reduce", OpKind::Reduce, double_tree_reduce},
                    Proof{"double_tree_all_reduce", OpKind::AllReduce, double_tree_all_reduce},
                    Proof{"van_de_geijn_broadcast", OpKind::Broadcast, van_de_geijn_broadcast},
                    Proof{"direct_broadcast", OpKind::Broadcast, direct_broadcast},
                    Proof{"direct_reduce", OpKind::Reduce, direct_reduce},
                    Proof{"direct_gather", OpKind::Gather, direct_gather},
                    Proof{"direct_scatter", OpKind::Scatter, direct_scatter},
                    Proof{"ring_reduce_scatter", OpKind::ReduceScatter, ring_reduce_scatter},
                    Proof{"recursive_halving_reduce_scatter", OpKind::ReduceScatter, recursive_halving_reduce_scatter},
                    Proof{"direct_reduce_scatter", OpKind::ReduceScatter, direct_reduce_scatter},
                    Proof{"pairwise_all_to_all", OpKind::AllToAll, pairwise_all_to_all},
                    Proof{"bruck_all_to_all", OpKind::AllToAll, bruck_all_to_all},
                    Proof{"dissemination_barrier", OpKind::Barrier, dissemination_barrier}),
    [](const auto& test) { return test.param.name; });

// --- Proofs of the v-forms
// -----------------------------------------------------------------------------------------------

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
          for (const Schedule& schedule : schedules) {
            for (const Step& step : schedule.steps) {
              const std::size_t moved = step.kind == Step::Kind::Send ? step.source.count : step.target.count;
              ASSERT_GT(moved, 0u);
              ASSERT_TRUE(segment_count == 0 || moved <= segment_count);
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, VProofs,
                         testing::Values(Proof{"linear_gather_v", OpKind::GatherV, linear_gather_v},
                                         Proof{"linear_scatter_v", OpKind::ScatterV, linear_scatter_v},
                                         Proof{"ring_all_gather_v", OpKind::AllGatherV, ring_all_gather_v}),
                         [](const auto& test) { return test.param.name; });

TEST(VProofs, NeedOneCountForEachRank) {
  const Problem problem{OpKind::GatherV, 0, 3, 0, 0, 0, {1, 2}};
  EXPECT_EQ(check(problem, std::vector<Schedule>(3)), "world size 3 needs as many counts, found 2");
}

}  // namespace
}  // namespace tutti::comm::algorithms
