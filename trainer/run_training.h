// run_training: one rank's process, from its environment to its exit status.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/trainer/options.h>

#include <cstdio>
#include <ostream>

namespace tutti::trainer {

struct ProcessStreams {
  std::ostream& out;
  std::ostream& err;
  std::FILE* live = nullptr;  // the file behind `out`, if a line that changes is shown (report/progress.h)
  std::size_t columns = 0;    // of the screen behind it; 0: there is none
};

/// Compute threads of a rank that was not told: the CPUs that the scheduler was asked for (SLURM_CPUS_PER_TASK), else
/// those that this process may use, divided by the ranks of the host.
int default_threads(const comm::World& world);

/// Detects the world, forms the group, trains, and closes the group; under an elastic launcher (TUTTI_CONTROL) in one
/// generation after the other (elastic/elastic_training.h). Returns 0 when the training is done; 143 (128 +
/// SIGTERM) when it was asked to end (requests.h) and a checkpoint holds how far it came, so that no script takes half
/// a training for a whole one and launchers that restart failed jobs do so; 2 for a UsageError, 1 for every other
/// failure; a failure is told once on `err` as "rank R: <one sentence, then details>" and to the other ranks through
/// the group, so that none of them waits. Throws nothing.
int run_training(const TrainOptions& options, const ProcessStreams& streams) noexcept;

}  // namespace tutti::trainer
