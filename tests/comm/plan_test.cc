// Plans: which of them can have Input within Output.

#include <gtest/gtest.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/schedule/plan.h>

#include <string_view>

namespace tutti::comm {
namespace {

Plan all_gather_plan(int rank, int world_size, std::size_t count, std::string_view algorithm) {
  const Problem problem{
      .op = OpKind::AllGather, .rank = rank, .world_size = world_size, .count = count, .segment_count = 4};
  return Plan(algorithms::select(problem, 4, std::string(algorithm), nullptr));
}

bool reads_own_block(const Plan& plan, int rank, std::size_t count) {
  return reads_input_from(plan, static_cast<std::size_t>(rank) * count, count);
}

TEST(Plan, ARingAndRecursiveDoublingGatherWithInputWhereItBelongs) {
  for (const int world_size : {1, 2, 3, 4, 5, 8})
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_TRUE(reads_own_block(all_gather_plan(rank, world_size, 10, "ring"), rank, 10)) << rank;
      if (world_size % 2 == 1) continue;  // for other worlds that algorithm is Bruck's
      EXPECT_TRUE(reads_own_block(all_gather_plan(rank, world_size, 10, "recursive_doubling"), rank, 10)) << rank;
    }
}

TEST(Plan, ElsewhereInputMustNotLie) {
  EXPECT_FALSE(reads_input_from(all_gather_plan(1, 3, 10, "ring"), 0, 10)) << "the block of another rank";
  EXPECT_FALSE(reads_input_from(all_gather_plan(1, 3, 10, "ring"), 11, 10)) << "not where the block begins";
}

TEST(Plan, BruckTurnsBlocksRoundInOutput) {
  for (int rank = 0; rank < 5; ++rank)
    EXPECT_FALSE(reads_own_block(all_gather_plan(rank, 5, 10, "bruck"), rank, 10)) << rank;
}

}  // namespace
}  // namespace tutti::comm
