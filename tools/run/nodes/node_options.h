// What the agents of a job on several nodes are told: how many there are, where they meet, how patient they are.
//
// An agent is one `tutti run`; it starts the ranks of one node. The agents meet at a control store, which one of them,
// the coordinator, serves: with static rendezvous (--node-rank, --master-addr) the agent of node 0, with dynamic
// rendezvous (--rdzv-endpoint) whichever agent can bind the endpoint's address. And
// the hosts of a job that one launcher starts: -H and --hostfile. Values; pure functions but for read_hostfile and
// ask_scheduler.
#pragma once

#include <tutti/comm/bootstrap/world.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct NodeOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  std::optional<int> node_rank;  // static rendezvous: this node's place. Nothing: the coordinator gives places
  std::string host;              // where the agents meet: an address or a name
  std::uint16_t port = 0;
  std::vector<std::string> addresses{};             // in place of `host`: tried in turn
  std::string meeting_file;                         // not "": node 0 takes a free port and publishes it there
  std::string run_id;                               // --rdzv-id; "": none given
  std::chrono::milliseconds join_timeout{600'000};  // until so many nodes are there as are needed
  std::chrono::milliseconds last_call{30'000};      // after MIN nodes have come, for more of them to come
  std::chrono::milliseconds heartbeat{250};         // an agent is heard so often ...
  std::chrono::milliseconds silence{1500};          // ... and lost after so long without (own starvation excluded)

  // Of an agent that a launcher has started on another host (remote_agent.h):
  bool remote = false;
  std::string node_name{};  // of this node; "": the host's own name

  bool is_static() const { return node_rank.has_value(); }
  bool fixed_size() const { return min_nodes == max_nodes; }
};

/// The options as they were written on the command line; "" or nothing where they were not.
struct NodeArguments {
  std::string nnodes = "1";  // N or MIN:MAX
  std::optional<int> node_rank{};
  std::string master_addr{};  // static rendezvous
  std::optional<int> master_port{};
  std::string rdzv_backend{};   // "", static, c10d (any other name that torchrun takes is refused)
  std::string rdzv_endpoint{};  // host[:port]
  std::string rdzv_id{};
  std::string meeting_file{};  // of agents that a scheduler has started (ask_scheduler); with node_rank
  std::string rdzv_conf{};     // key=value,...: join_timeout, last_call_timeout, keep_alive_interval, silence_timeout
};

inline constexpr std::uint16_t kStaticPort = 29500;   // torchrun's --master-port
inline constexpr std::uint16_t kDynamicPort = 29400;  // torchrun's port of --rdzv-endpoint

/// Nothing for a job on one node. Throws std::invalid_argument with one sentence for options that make no sense.
std::optional<NodeOptions> parse_node_options(const NodeArguments& arguments);

/// Where nothing is said about how the nodes meet, and a scheduler has started this agent, its variables say it: sets
/// node_rank and meeting_file (srun --ntasks-per-node 1 tutti run --nnodes N ...: each agent has its task's place).
/// Throws std::invalid_argument if it started another number of processes than nodes.nnodes, and comm::Error for
/// variables that contradict each other. Under Hydra it asks the PMI server for the job's name.
void ask_scheduler(NodeArguments& nodes, const comm::Environment& environment);

/// The same for a job whose `nodes` agents one launcher starts (-H, --hostfile).
NodeOptions launched_node_options(const NodeArguments& arguments, int nodes);

struct HostSlots {
  std::string host;          // as given to the remote command; "user@node1" will do
  std::optional<int> slots;  // ranks; nothing where none were said
};

/// Of the launcher that starts the agents of other hosts.
struct RemoteOptions {
  std::vector<HostSlots> hosts;
  std::vector<std::string> rsh{"ssh"};  // called as RSH... HOST COMMAND-LINE
  std::string bind_address;             // of the control store; "": all interfaces
};

/// "ssh -p 2222" as words, as a shell splits and expands them; commands in it are not executed. Throws
/// std::invalid_argument.
std::vector<std::string> split_rsh(const std::string& text);

/// "node1:4,node2:2,node3", "[fe80::1]:2". Throws std::invalid_argument.
std::vector<HostSlots> parse_hosts(const std::string& text);

/// A line for each host: "node1", "node1:4" (MPICH) or "node1 slots=4" (Open MPI); "#" begins a comment; other words of
/// a line are passed over. A host that stands there several times has so many slots more (PBS_NODEFILE). Throws
/// std::invalid_argument, naming `name` and the line.
std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& name);
std::vector<HostSlots> read_hostfile(const std::string& path);

}  // namespace tutti::tools
