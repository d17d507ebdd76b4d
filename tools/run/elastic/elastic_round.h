// ElasticRound: an ElasticJob over the ranks of several nodes, in the coordinator's process.
//
//   agents' RemoteRescuers --- RanksChanged ---> ends of all processes ---> ElasticJob (next_generation.h decides)
//                          <-- RescueOrder ----  what is to be done, by node ---------+
//
// Serves the job's control store and the store of each generation at the coordinator's address. One thread: the
// coordinator's. Signals must be blocked before the constructor runs.
#pragma once

#include <tutti/tools/run/elastic/elastic_job.h>
#include <tutti/tools/run/nodes/messages.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class ElasticRound {
 public:
  struct Step {
    bool give_up = false;                     // the failure is the job's
    std::map<int, RescueOrder> orders;        // by node
    std::vector<std::pair<int, int>> joined;  // nodes that have a place now, and their first ranks
  };

  /// The ranks of `plan` are to be started; its ports are not known yet. Throws as TcpStoreServer does.
  ElasticRound(const RoundPlan& plan, const std::string& bind_address, const std::string& job_secret,
               const ElasticLimits& limits, ElasticJob::Say say);

  /// Throws comm::Error{Protocol} for processes that nobody was told to start.
  void changed(int node, const RanksChanged& changed);
  void node_gone(int node) { job_.node_gone(node); }
  void node_comes(int node, const NodePlace& place);
  bool program_is_elastic() { return job_.look_for_members(); }
  /// For a node that is started again; false if none is left.
  bool use_restart() { return job_.use_restart(); }
  Step look(RankEnd::Clock::time_point now);

  const ElasticJob& job() const { return job_; }

 private:
  struct Process {
    int node = 0;
    std::size_t place = 0;  // among the node's
  };

  void add_process(int node, int rank);

  const int round_;
  std::map<int, NodePlace> nodes_;
  std::vector<Process> processes_;                   // of all nodes, in the job's order ...
  std::vector<RankEnd> ends_;                        // ... and how they fare
  std::map<int, std::vector<std::size_t>> of_node_;  // a node's processes in order of their start
  ElasticJob job_;
};

/// The Rescuer of one node. It tells the coordinator how its processes fare, and does what the ElasticRound has decided
/// for all nodes. One thread: the agent's main one.
class RemoteRescuer final : public Rescuer {
 public:
  using Post = std::function<void(Message message)>;

  /// `control_host`: where this node reaches the coordinator; the job's control store is there, too.
  RemoteRescuer(const RoundPlan& plan, int node, const std::string& control_host, Post post);

  std::chrono::milliseconds look_every() const override { return std::chrono::milliseconds(100); }
  std::vector<std::string> environment(int local_rank) const override;
  RescuePlan look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) override;
  bool waits() const override { return waits_; }

  /// For the next look().
  void take(RescueOrder order) { orders_.push_back(std::move(order)); }

 private:
  struct Known {
    bool running = true;
    bool frozen = false;
    bool operator==(const Known&) const = default;
  };

  void tell_changes(std::span<const RankEnd> ranks);

  const int round_;
  const int node_;
  const std::string control_;  // HOST:PORT
  const Post post_;
  std::vector<Known> told_;  // by process
  std::deque<RescueOrder> orders_;
  bool waits_ = false;
};

}  // namespace tutti::tools
