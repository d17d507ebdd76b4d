// Agents that a scheduler has started, one on each node (srun --ntasks-per-node 1 tutti run --nnodes N ...): their
// places are those of the scheduler's tasks, and node 0's agent publishes where it coordinates, in a file of the folder
// that ranks would meet in (comm/bootstrap/meeting_file.h). Nobody writes --node-rank or --master-addr.
//
// find_scheduled_node() is a function of the environment. The others block on the file system, and on short
// connections. The agents of other nodes look into the file while they connect (control_link.h).
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <optional>
#include <string>

namespace tutti::tools {

struct ScheduledNode {
  int node_rank = 0;
  std::string source;        // "Slurm step 7.0: SLURM_PROCID=1, ..."
  std::string meeting_file;  // where the agents of this step meet
};

/// Nothing where no scheduler started this process. Throws std::invalid_argument if it started another number of
/// processes than `nodes`, and comm::Error for variables that contradict each other. Under Hydra it asks the PMI server
/// for the job's name.
std::optional<ScheduledNode> find_scheduled_node(int nodes, const comm::Environment& environment);

/// Where nothing is said about how the nodes meet, and a scheduler has started this agent, its variables say it: sets
/// node_rank and meeting_file. Throws as find_scheduled_node does.
void ask_scheduler(NodeArguments& nodes);

/// The address at which the agent of node 0 should listen, to be reached by other hosts.
std::string address_to_coordinate_at();

/// Node 0's: shows the coordinator's address to the other agents as long as it lives.
class PublishedCoordinator {
 public:
  /// The coordinator's store serves at nodes.host and port already. Throws as MeetingFile::publish and TcpStore do.
  PublishedCoordinator(const NodeOptions& nodes, const std::string& job_secret);
  ~PublishedCoordinator();
  PublishedCoordinator(const PublishedCoordinator&) = delete;
  PublishedCoordinator& operator=(const PublishedCoordinator&) = delete;

 private:
  std::string file_;
  std::string secret_;
  std::string nonce_;
};

}  // namespace tutti::tools
