// What the proofs of the algorithms share: the schedules of all ranks, and the grid of worlds and roots.
#pragma once

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/table.h>
#include <tutti/tests/support/full_run.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace tutti::comm::algorithms {

inline std::vector<Schedule> schedules_of(Problem problem, const std::function<Schedule(const Problem&)>& build) {
  std::vector<Schedule> schedules;
  for (problem.rank = 0; problem.rank < problem.world_size; ++problem.rank) schedules.push_back(build(problem));
  return schedules;
}

/// What the header promises and the checker does not ask for.
inline void expect_no_empty_and_no_oversized_steps(const Problem& problem, const std::vector<Schedule>& schedules) {
  if (problem.op == OpKind::Barrier) return;
  for (const Schedule& schedule : schedules) {
    if (!has_counts(problem.op) && problem.count == 0) {
      EXPECT_TRUE(schedule.steps.empty());
    }
    for (const Step& step : schedule.steps) {
      const std::size_t moved = step.kind == Step::Kind::Send ? step.source.count : step.target.count;
      ASSERT_GT(moved, 0u);
      ASSERT_TRUE(problem.segment_count == 0 || moved <= problem.segment_count) << moved;
    }
  }
}

constexpr int kLargestWorld = test::kFullRun ? 33 : 17;
constexpr int kOneMoreWorld = test::kFullRun ? 64 : 24;
constexpr int kLargestWorldWithAllRoots = 17;

struct Proof {
  std::string name;
  OpKind op;
  Schedule (*build)(const Problem&);
};

/// All algorithms of the table that `is_wanted` takes.
inline std::vector<Proof> proofs_of(const std::function<bool(const Entry&)>& is_wanted) {
  std::vector<Proof> result;
  for (const Entry& entry : table()) {
    if (is_wanted(entry))
      result.push_back({std::string(entry.name) + "_" + std::string(name(entry.op)), entry.op, entry.build});
  }
  return result;
}

inline void PrintTo(const Proof& proof, std::ostream* out) { *out << proof.name; }

inline std::vector<int> worlds() {
  std::vector<int> result = test::proven_worlds(kLargestWorld);
  result.push_back(kOneMoreWorld);
  return result;
}

inline std::vector<int> roots(OpKind op, int p) {
  const bool rooted = op == OpKind::Broadcast || op == OpKind::Reduce || op == OpKind::Gather || op == OpKind::Scatter;
  if (!rooted) return {0};
  if (p > kLargestWorldWithAllRoots) return {0, 1, p / 2, p - 1};
  std::vector<int> result;
  for (int root = 0; root < p; ++root) result.push_back(root);
  return result;
}

}  // namespace tutti::comm::algorithms
