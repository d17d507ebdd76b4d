// Rescuer: what an Attempt asks while its ranks run, so that the loss of one need not be the end of all.
//
// An ordinary job has none: its first failure ends it. Called from the Attempt's poll loop only.
#pragma once

#include <tutti/tools/run/report.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti::tools {

struct RescuePlan {
  enum class Kind {
    Nothing,  // nobody is lost, or it is too early to say what is to be done
    GoOn,     // do as follows; the job goes on
    GiveUp,   // the failure is the job's
  };
  struct Start {
    int node = 0;                          // always this one, but for a coordinator of several
    int local_rank = 0;                    // CPUs, logs and labels are this slot's
    int restart_count = 0;                 // for the logs' folder
    std::vector<std::string> environment;  // "NAME=value", on top of the rank's
  };
  Kind kind = Kind::Nothing;
  std::vector<std::size_t> lost{};    // their end is dealt with, and not the job's
  std::vector<std::size_t> frozen{};  // kill them
  std::vector<Start> starts{};
  std::vector<int> joined{};  // nodes whose first ranks have a place from now on; of a coordinator of several nodes
};

class Rescuer {
 public:
  virtual ~Rescuer() = default;

  /// How often look() wants to be called at least.
  virtual std::chrono::milliseconds look_every() const = 0;

  /// For the first start of a rank: "NAME=value".
  virtual std::vector<std::string> environment(int local_rank) const = 0;

  /// `ranks`: all processes that were started, in that order; those of earlier plans keep their places. Does not block
  /// for longer than the control store, in this process, takes to answer.
  virtual RescuePlan look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) = 0;

  /// Whether it has not been decided yet what follows the end of a rank: others may be started although none runs.
  virtual bool waits() const { return false; }
};

}  // namespace tutti::tools
