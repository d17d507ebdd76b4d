// How the rest of a job reaches into an Attempt. Both are called from its poll loop only, on the launcher's main
// thread, and must not block.
//
// AttemptControl: the other nodes of a job on several; what happens there comes in, and failures here go out. A job on
// one host has none. Rescuer: what an Attempt asks while its ranks run, so that the loss of one need not be the end of
// all. An ordinary job has none: its first failure ends it.
#pragma once

#include <tutti/tools/run/report.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::tools {

struct AttemptOrder {
  enum class Kind {
    Settle,     // ranks elsewhere have failed: as if one of ours had
    Terminate,  // SIGTERM now and the time that it has after a SIGTERM to the launcher
    Kill,       // SIGKILL now
    Signal,     // give `signal` to the ranks, as if the launcher had got it for the first time
  };
  Kind kind = Kind::Settle;
  int signal = 0;
};

class AttemptControl {
 public:
  virtual ~AttemptControl() = default;

  /// Readable when next_order() has something to give.
  virtual int fd() const = 0;
  virtual std::optional<AttemptOrder> next_order() = 0;

  /// A rank has ended otherwise than well, and of itself.
  virtual void rank_failed(const RankEnd& rank) = 0;
  /// A forwarded signal has come to this launcher. `again`: the second that asks to end.
  virtual void signal_came(int signal, bool again) = 0;
};

struct RescuePlan {
  struct Start {
    int local_rank = 0;                    // CPUs, logs and labels are this slot's
    int restart_count = 0;                 // for the logs' folder
    std::vector<std::string> environment;  // "NAME=value", on top of the rank's
  };
  bool give_up = false;               // the failure is the job's
  std::vector<std::size_t> lost{};    // their end is dealt with, and not the job's
  std::vector<std::size_t> frozen{};  // kill them
  std::vector<Start> starts{};
};

/// How often Rescuer::look() wants to be called at least.
inline constexpr std::chrono::milliseconds kLookEvery{100};

class Rescuer {
 public:
  virtual ~Rescuer() = default;

  /// For the first start of a rank: "NAME=value".
  virtual std::vector<std::string> environment(int local_rank) const = 0;

  /// `ranks`: all processes that were started, in that order; those of earlier plans keep their places. Does not block
  /// for longer than the control store, in this process, takes to answer.
  virtual RescuePlan look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) = 0;

  /// Whether it has not been decided yet what follows the end of a rank: others may be started although none runs.
  virtual bool waits() const { return false; }
};

}  // namespace tutti::tools
