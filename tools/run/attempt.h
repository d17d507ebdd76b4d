// One start of all ranks of a job, watched until the last has ended.
//
// A state machine over one poll loop, on the launcher's main thread:
//
//   Running --first failure--> Settling --1.5 s--> Terminating --grace--> Killing
//      |                          |                   (TERM, CONT)        (KILL)
//      +-- INT, TERM, HUP, QUIT --+----------------------^
//   all ranks have ended, in any state --> Lingering: a moment for processes the ranks left behind, then KILL
//
// In a job on several nodes the ranks of this one are an Attempt; what is decided for them elsewhere comes in by its
// AttemptControl. The Attempt of an elastic job leaves the state Running only when it is told to. Ranks stay zombies
// until the end, so that no process id is used twice while signals are still sent.
#pragma once

#include <poll.h>
#include <tutti/tools/run/host.h>
#include <tutti/tools/run/launch_context.h>
#include <tutti/tools/run/leftovers.h>
#include <tutti/tools/run/nodes/messages.h>
#include <tutti/tools/run/rank_environment.h>
#include <tutti/tools/run/rank_output.h>
#include <tutti/tools/run/report.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tutti::tools {

/// What decides beside the Attempt: of a job on several nodes the coordinator, which hears how the ranks fare here, and
/// of an elastic job what follows the loss of a rank. Called from the Attempt's main thread only; does not block for
/// longer than a store in this process takes to answer.
class AttemptControl {
 public:
  virtual ~AttemptControl() = default;

  /// Readable when take_orders() has something to give; -1: it has only after ranks_changed().
  virtual int fd() const = 0;
  virtual std::vector<Order> take_orders() = 0;

  /// While the state is Running: ranks that have started, ended, or in an elastic job been frozen or woken. At first
  /// all; in an elastic job a few times a second, also without any.
  virtual void ranks_changed(const std::vector<RankEnd>& ranks) = 0;
  /// A forwarded signal has come to this launcher. `again`: the second that asks to end.
  virtual void signal_came(int signal, bool again) = 0;
};

class Attempt {
 public:
  Attempt(LaunchContext& context, const JobEnvironment& job, AttemptControl& control);
  /// Kills and reaps whatever is left.
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Starts all ranks; throws what spawn_rank throws.
  void start();

  /// Returns when all ranks have ended, everything they printed is queued in the console and nothing of them runs.
  void run();

  const std::vector<RankEnd>& ends() const { return ends_; }
  /// The signal that asked the launcher to end the job, if one did.
  std::optional<int> interrupted_by() const { return interrupted_by_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { Running, Settling, Terminating, Killing, Lingering, Done };

  void refuse_terminal_input() const;
  void start_rank(int local_rank, const JobEnvironment& job, const std::vector<std::string>& ordered, int stdin_fd);
  void poll_once();
  int poll_timeout() const;
  void take_signals();
  void obey(const Order& order);
  void pass_on(int signal, bool again);
  void suspend();
  void note_exits();
  void look_after_children();
  std::set<pid_t> own_children() const;
  void rescue(const Order& order);
  void tell_changes();
  void note_failure(Clock::time_point now);
  void advance(Clock::time_point now);
  void enter(State state, std::chrono::milliseconds time);
  void signal_group(RankEnd& rank, int signal);
  void signal_all(int signal);
  void terminate();
  void finish();
  bool all_ended() const;
  bool waits_for_orders() const;
  bool all_output_finished() const;
  bool only_frozen_ranks_run() const;

  LaunchContext& context_;
  const LaunchOptions& options_;
  const JobEnvironment& job_;
  AttemptControl& control_;

  const Strays strays_;
  LinePrinter printer_;
  const Evidence evidence_;
  std::vector<RankEnd> ends_;     // of all that were started, replacements at the end
  std::vector<RankEnd> changed_;  // those of which the control has not been told
  std::vector<std::unique_ptr<RankOutput>> outputs_;
  State state_ = State::Running;
  std::optional<Clock::time_point> deadline_;  // of the present state
  std::optional<int> interrupted_by_;
  std::set<int> passed_on_;  // signals that do not ask to end
  bool finished_ = false;
};

}  // namespace tutti::tools
