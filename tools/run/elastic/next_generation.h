// Which workers take part in the next generation of an elastic job, when it is time for it, and which have come too
// late for the present one. Pure functions.
//
//   a worker has died ----------- settle (others may be dying) --+
//   all others have left its group ------------------------------+--> next generation
//   a worker is silent: frozen, or silent for `patience` -- kill -+
//
// Lost workers are replaced while there are restarts left; then the world shrinks, down to `min_ranks`.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace tutti::tools {

/// How often the ranks of an elastic job are looked at, at least.
inline constexpr std::chrono::milliseconds kLookEvery{100};

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

/// A rank that comes when the others have just finished would wait for them in vain.
struct Attendance {
  bool running = true;
  int since = 0;     // the generation in which it has had its first place
  int entered = -1;  // of a rank that has finished: the last generation that it has entered; -1: none
};

struct LateRanks {
  std::vector<std::size_t> late;  // their places, in order of rank
  std::size_t finished = 0;       // the place of one that has finished without them
};

/// The members of generation `generation`, in order of rank. A rank that has finished without entering it never will,
/// and the one with the first place there would wait for it. No rank is late while another one runs, which may be about
/// to enter, or to finish, too.
LateRanks late_ranks(const std::vector<Attendance>& members, int generation);

}  // namespace tutti::tools
