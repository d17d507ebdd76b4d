#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "algorithm_proofs.h"

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

}  // namespace
}  // namespace tutti::comm::algorithms
