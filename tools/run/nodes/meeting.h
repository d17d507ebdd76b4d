// Meeting: how an agent gets to the control store: it serves it, or finds who does.
//
// Agents that a scheduler has started, one on each node (srun --ntasks-per-node 1 tutti run --nnodes N ...), have the
// places of the scheduler's tasks. Node 0's agent shows where it coordinates in a file of the folder that ranks would
// meet in (comm/bootstrap/meeting_file.h); the others look into it while they connect (control_link.h). Nobody writes
// --node-rank or --master-addr. Thread-safety: the agent's main thread.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/reserved_port.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

class Meeting {
 public:
  /// `host`: this node's name, for people. options.nodes must be set.
  Meeting(const LaunchOptions& options, std::string host);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Becomes the coordinator, where that is this agent's part. Throws comm::Error.
  void begin();

  /// A connection on its way to the control store, with this agent's hello.
  std::unique_ptr<ControlLink> link() const;

  bool coordinates() const { return coordinator_ != nullptr; }
  const std::string& secret() const { return secret_; }
  std::string place() const;  // "host:port", or in which file that stands
  /// Why this agent does not coordinate, where it has tried to; else "".
  const std::string& obstacle() const { return obstacle_; }

 private:
  Hello hello() const;
  void start_coordinator();
  void publish();
  std::vector<std::string> control_hosts() const;
  std::string about() const;

  const LaunchOptions& options_;
  NodeOptions nodes_;  // with the place that was found
  const std::string host_;
  std::string secret_;
  std::optional<ReservedPort> reserved_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string obstacle_;
  bool everywhere_ = false;  // the coordinator listens on all interfaces
  std::string nonce_;        // of what stands in the meeting file; "": nothing of this agent's
};

/// Where nothing is said about how the nodes meet, and a scheduler has started this agent, its variables say it: sets
/// node_rank and meeting_file. Throws std::invalid_argument if it started another number of processes than
/// nodes.nnodes, and comm::Error for variables that contradict each other. Under Hydra it asks the PMI server for the
/// job's name.
void ask_scheduler(NodeArguments& nodes, const comm::Environment& environment);

}  // namespace tutti::tools
