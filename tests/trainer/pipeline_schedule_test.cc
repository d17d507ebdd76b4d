// The order of a pipeline's work: complete, without deadlocks, and as thrifty as the header promises.
#include <gtest/gtest.h>
#include <tutti/trainer/pipeline/pipeline.h>

#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

using Kind = PipelineAction::Kind;

std::string text_of(const std::vector<PipelineAction>& actions) {
  std::string text;
  for (const PipelineAction& action : actions) {
    text += (action.kind == Kind::Forward ? " F" : " B") + std::to_string(action.micro_batch);
  }
  return text;
}

TEST(PipelineSchedule, IsAsDrawnInItsHeader) {
  const auto text = [](PipelineSchedule schedule, int stage) { return text_of(plan_pipeline(schedule, stage, 3, 4)); };
  EXPECT_EQ(text(PipelineSchedule::GPipe, 1), " F0 F1 F2 F3 B0 B1 B2 B3");
  EXPECT_EQ(text(PipelineSchedule::OneForwardOneBackward, 0), " F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(PipelineSchedule::OneForwardOneBackward, 1), " F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(PipelineSchedule::OneForwardOneBackward, 2), " F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_THROW(plan_pipeline(PipelineSchedule::GPipe, 2, 2, 1), std::invalid_argument);
  EXPECT_THROW(plan_pipeline(PipelineSchedule::GPipe, 0, 2, -1), std::invalid_argument);
}

/// Runs all stages on a model of the courier: sends never wait, receives do, in the order of the sends. Returns how
/// many actions could not be run.
int actions_left(PipelineSchedule schedule, int stages, int micro_batches) {
  std::vector<std::vector<PipelineAction>> plans;
  std::vector<std::size_t> next(static_cast<std::size_t>(stages));
  std::vector<int> forwards(static_cast<std::size_t>(stages));  // done by each stage
  std::vector<int> backwards(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) plans.push_back(plan_pipeline(schedule, stage, stages, micro_batches));
  int left = 2 * stages * micro_batches;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < plans.size(); ++s) {
      while (next[s] < plans[s].size()) {
        const PipelineAction action = plans[s][next[s]];
        const bool forward = action.kind == Kind::Forward;
        int& mine = forward ? forwards[s] : backwards[s];
        EXPECT_EQ(action.micro_batch, mine)
            << "micro-batches follow their order, or gradients would be added in another";
        const bool here = forward ? s == 0 || forwards[s - 1] > mine
                                  : forwards[s] > mine && (s + 1 == plans.size() || backwards[s + 1] > mine);
        if (!here) break;
        ++mine;
        ++next[s];
        --left;
        moved = true;
        const int held = forwards[s] - backwards[s];
        const int allowed = schedule == PipelineSchedule::GPipe ? micro_batches : stages - static_cast<int>(s);
        EXPECT_LE(held, allowed) << "stage " << s << " of " << stages << ", " << micro_batches << " micro-batches";
      }
    }
  }
  return left;
}

TEST(PipelineSchedule, RunsToItsEndForAnyNumberOfStagesAndMicroBatches) {
  for (const PipelineSchedule schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward}) {
    for (int stages = 1; stages <= 9; ++stages) {
      for (int micro_batches = 0; micro_batches <= 24; ++micro_batches) {
        EXPECT_EQ(actions_left(schedule, stages, micro_batches), 0)
            << name(schedule) << ", " << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
  }
}

}  // namespace
}  // namespace tutti::trainer
