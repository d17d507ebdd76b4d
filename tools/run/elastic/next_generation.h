// Who takes part in the next generation of an elastic job, and when it is time for it. Pure functions.
//
//   a worker has died ----------- settle (others may be dying) --+
//   all others have left its group ------------------------------+--> next generation
//   a worker is silent: frozen, or silent for `patience` -- kill -+
//
// Lost workers are replaced while there are restarts left; then the world shrinks, down to `min_ranks`.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace tutti::tools {

struct ElasticLimits {
  int min_ranks = 1;  // 0: all but those whose nodes are gone
  int max_restarts = 0;
  /// After a death: for the deaths that come with it.
  std::chrono::milliseconds settle{200};
  /// For a worker that runs and does not say that its group has failed, once another one has.
  std::chrono::milliseconds patience{30'000};
};

enum class WorkerFate {
  Runs,
  Left,  // it waits for the next generation
  Frozen,
  Died,
  Gone,  // with its node: nobody can be started in its place
  Finished,
};

struct NextGeneration {
  enum class Kind { Wait, KillSilent, Form, TooFew, AllDone };
  Kind kind = Kind::Wait;
  std::vector<std::size_t> survivors;  // Form: places in the present generation, in order of rank
  std::vector<std::size_t> lost;       // those that died or are gone
  std::vector<std::size_t> silent;     // KillSilent: whom
  bool replace = false;                // Form: those that died get replacements, at their ranks
};

/// `fates` in order of rank; `since` the first of them that is neither Runs nor Finished was seen.
NextGeneration next_generation(const std::vector<WorkerFate>& fates, int restarts_used, const ElasticLimits& limits,
                               std::chrono::milliseconds since);

}  // namespace tutti::tools
