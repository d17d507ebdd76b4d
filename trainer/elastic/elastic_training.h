// Elastic training: a rank that goes on when others are lost, and lets new ones in.
//
// A rank's process lives through generations (comm/bootstrap/generation.h). In each it forms a group, meets the others
// (training_state.h: who is furthest, who needs what), and trains until the run is done, until the group fails, or
// until the ranks agree to leave it because the launcher has published the next generation; that question travels with
// a step's gradients (data_parallel/riders.h), so that all leave after the same step. A failure at any point (backward,
// exchange, evaluation, checkpoint) takes a survivor back to its last whole step, and the step is done again in the
// next group.
//
// The global batch is batch_size x the ranks of generation 0, for the whole run: fewer ranks take more of each step's
// samples each, more take fewer. So steps, schedules, checkpoints and results do not depend on what happened to the
// ranks: with as many ranks as before, and with --reproducible on any number that it takes, the parameters have the
// bits of an undisturbed run; else they differ by the rounding of sums.
//
// When nobody survives, the newest checkpoint is where the next generation begins.
#pragma once

#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/process_group.h>
#include <tutti/trainer/elastic/training_state.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/train_loop.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>

namespace tutti::trainer {

/// What a run needs to know in one generation.
struct ElasticRun {
  TrainingState& state;
  int generation = 0;
  int first_size = 1;  // ranks of generation 0
  /// Rank 0: has the launcher published the next generation? Any thread may set it.
  const std::atomic<bool>& next_is_there;
  /// For tests: called on each rank when model and optimizer have been made for the first time.
  std::function<void(TrainingState&)> prepared{};
};

/// All ranks have left a group that was well, at the same step.
class GenerationOver : public std::runtime_error {
 public:
  GenerationOver() : std::runtime_error("the ranks leave this group to form the next one") {}
};

/// Throws UsageError for options whose state dies with a rank.
void check_elastic_options(const TrainOptions& options);

struct ElasticTraining {
  const TrainOptions& options;
  comm::GenerationMember& member;
  TrainOutput output;
  /// Rank 0's duty before it trains; run_training's check_surroundings.
  std::function<void(const TrainOptions&)> check{};
  std::function<void(const comm::World&)> placed{};              // a generation begins
  std::function<void(TrainingState&)> prepared{};                // ElasticRun::prepared
  std::chrono::milliseconds look_every{100};                     // rank 0, whether the next generation is there
  std::chrono::milliseconds patience{std::chrono::minutes(10)};  // for the launcher's next generation
};

/// Trains through as many generations as it takes. Returns the report of the last one. Throws what is no loss of other
/// ranks: errors of this rank's own (other ranks are told through the group), comm::Error when the launcher is gone or
/// goes on without this rank.
RunReport train_elastically(const ElasticTraining& training);

}  // namespace tutti::trainer
