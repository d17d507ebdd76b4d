// Conductor: the coordinator's decisions, without its threads and sockets. A state machine; time is given to it.
//
//   Gathering --enough nodes--> Running --failure, lost node, signal, change of nodes--> Stopping
//       ^                          |                                                        |
//       +-- restart, new nodes ----+------- all nodes of the round ended or lost -----------+--> Finished
//
// A failure of a rank or the loss of a node ends the round everywhere and costs one of --max-restarts. Where the number
// of nodes may change, a node that comes (room permitting) or is asked to leave begins a new round at no cost: the
// ranks get SIGTERM and time to write a checkpoint. A node more than MAX waits as a spare. An elastic job's round
// outlives lost ranks and nodes, and takes others in. Thread-safety: one thread.
//
// conductor.cc has rounds and their ends, conductor_nodes.cc which nodes take part.
#pragma once

#include <tutti/tools/run/elastic/elastic_job.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/nodes/judge.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tutti::tools {

class Conductor {
 public:
  using Clock = std::chrono::steady_clock;

  /// What the decisions act on.
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void post(int agent_or_all, const Message& message) = 0;
    /// Fresh stores for the ranks of a round, in place of the last ones; their ports are put into `plan`. Returns what
    /// decides while an elastic job's ranks run; else null.
    virtual ElasticJob* new_stores(RoundPlan& plan, ElasticJob::Say say) = 0;
  };

  Conductor(const CoordinatorOptions& options, Outside& outside, Clock::time_point now);

  /// Throws comm::Error{Protocol} for one that no agent sends, and what new_stores throws.
  void message(int agent, const Message& message, Clock::time_point now);
  /// `at`: the last moment at which it may have been well.
  void lost(int agent, const std::string& why, Clock::time_point at, Clock::time_point now);
  void tick(Clock::time_point now);
  /// Ends the job on all nodes, whatever they do.
  void give_up(const std::string& why);

  bool finished() const { return phase_ == Phase::Finished; }
  /// Agents whose heartbeats are to be watched.
  const std::map<int, Hello>& agents() const { return agents_; }

 private:
  enum class Phase { Gathering, Running, Stopping, Finished };

  void on_hello(int agent, const Hello& hello);
  void on_report(int agent, const Report& report, Clock::time_point now);
  void on_ended(int agent, const Report& ended, Clock::time_point now);
  void on_interrupted(int agent, const Signalled& interrupted, Clock::time_point now);
  void on_observer(const Message& message);
  void interrupt(const std::string& by, const Signalled& interrupted);
  void forward(int signal);
  void admit_newcomer(int agent);
  std::string objection(const Hello& hello) const;
  void gather(Clock::time_point now);
  std::optional<std::vector<int>> static_order() const;
  std::optional<std::vector<int>> ready(Clock::time_point now);
  std::string progress() const;
  void start_round(const std::vector<int>& order);
  void stop_round(Order::Act act);
  void order(Order::Act act, int signal = 0);
  void end_round_if_over(Clock::time_point now);
  void begin_gathering(Clock::time_point now);
  bool nobody_was_stopped() const;
  void finish(int status, const std::string& summary);
  void tell(const std::string& text);
  void rescue(Clock::time_point now);
  bool goes_on_without(int node);
  void take_in(int agent);
  NodePlace place_of(int agent, int first_rank) const;
  void post_to_node(int node, const Message& message);
  std::optional<int> node_of(int agent) const { return round_ ? round_->plan.node_of(agent) : std::nullopt; }
  std::string name_of(int agent) const;
  bool round_runs() const { return phase_ == Phase::Running || phase_ == Phase::Stopping; }

  const CoordinatorOptions options_;
  const std::string job_id_;  // of the rounds' stores, and TUTTI_JOB_ID
  Outside& outside_;
  Phase phase_ = Phase::Gathering;
  std::map<int, Hello> agents_;
  Clock::time_point gathering_since_{};
  std::optional<Clock::time_point> enough_since_;  // so many nodes as are needed are here
  int next_round_ = 0;
  int restarts_ = 0;
  std::optional<RoundEnd> round_;  // the present or the last one
  ElasticJob* elastic_ = nullptr;
  std::set<int> without_;                        // nodes of the round that were lost, and the others go on
  std::set<int> joining_;                        // nodes that have come since, and have no ranks yet
  int first_nodes_ = 0;                          // with which the round began
  std::map<int, std::vector<RankEnd>> started_;  // by node
  bool nodes_change_ = false;                    // the round is stopped for that alone
  Verdict last_verdict_{};
  std::optional<int> observer_;        // a launcher without ranks of its own
  std::set<int> leaving_;              // agents that were asked to end
  Clock::time_point next_progress_{};  // while gathering
};

}  // namespace tutti::tools
