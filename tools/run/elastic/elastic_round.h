// ElasticRound: an ElasticJob over the ranks of several nodes, in the coordinator's process.
//
//   agents' RemoteRescuers --- RanksChanged ---> ends of all processes ---> ElasticJob (next_generation.h decides)
//                          <-- RescueOrder ----  what is to be done, by node ---------+
//
// Serves the job's control store and the store of each generation at the coordinator's address. One thread: the
// coordinator's. Signals must be blocked before the constructor runs.
#pragma once

#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/tools/run/elastic/elastic_job.h>
#include <tutti/tools/run/elastic/elastic_messages.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tutti::tools {

class ElasticRound {
 public:
  struct Options {
    std::string bind_address;  // "": all interfaces
    std::string job_secret;
    ElasticLimits limits;
  };
  struct Step {
    bool give_up = false;                     // the failure is the job's
    std::map<int, RescueOrder> orders;        // by node
    std::vector<std::pair<int, int>> joined;  // nodes that have a place now, and their first ranks
  };

  /// The ranks of `plan` are to be started; its ports are not known yet. Throws as TcpStoreServer does.
  ElasticRound(const RoundPlan& plan, const Options& options, ElasticJob::Say say);

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

}  // namespace tutti::tools
