#include <tutti/tools/run/nodes/remote_agent.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>
#include <tutti/tools/run/own_command.h>
#include <tutti/tools/run/place_options.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stdexcept>

namespace tutti::tools {
namespace {

// The hosts of -H and --hostfile, where one of them is given.
std::vector<HostSlots> hosts_of(const PlaceArguments& arguments) {
  if (!arguments.hosts.empty() && !arguments.hostfile.empty())
    throw std::invalid_argument("-H and --hostfile are given; one of them says which hosts there are");
  if (!arguments.hosts.empty()) return parse_hosts(arguments.hosts);
  return arguments.hostfile.empty() ? std::vector<HostSlots>() : read_hostfile(arguments.hostfile);
}

void add_host_options(CLI::App& command, PlaceArguments& arguments) {
  command.add_option("-H,--host", arguments.hosts, "Hosts to start ranks on: node1:4,node2:4 (ranks; else -n of them)");
  command.add_option("--hostfile", arguments.hostfile,
                     "File of hosts, one a line: 'node1 slots=4' or 'node1:4'; PBS_NODEFILE will do");
  command
      .add_option("--rsh", arguments.rsh,
                  "Command that starts a program on a host, called as ssh is: RSH HOST COMMAND-LINE")
      ->capture_default_str();
}

void add_node_options(CLI::App& command, NodeArguments& nodes) {
  command.add_option("--nnodes", nodes.nnodes, "Nodes; each starts its own 'tutti run'. Or MIN:MAX")
      ->capture_default_str();
  command.add_option("--node-rank", nodes.node_rank, "This node's number, with --master-addr");
  command.add_option("--master-addr", nodes.master_addr,
                     "Address of node 0 where the nodes meet; of one node: that the store server binds [127.0.0.1]");
  command
      .add_option("--master-port", nodes.master_port, "Its port [29500]; of one node: 0, a free one, is the default")
      ->check(CLI::Range(0, 65535));
  command.add_option("--rdzv-backend", nodes.rdzv_backend, "c10d (with --rdzv-endpoint) or static (with --node-rank)");
  command.add_option(
      "--rdzv-endpoint", nodes.rdzv_endpoint,
      "HOST[:PORT] where the nodes meet, the same on all; whichever has that address coordinates [port 29400]");
  command.add_option("--rdzv-id", nodes.rdzv_id, "Name of the job, the same on all nodes");
  command.add_option("--rdzv-conf", nodes.rdzv_conf,
                     "KEY=SECONDS,...: join_timeout [600], last_call_timeout [30] for nodes more than MIN, "
                     "keep_alive_interval [0.25], silence_timeout [1.5] after which a node counts as lost");
}

}  // namespace

void add_place_options(CLI::App& command, PlaceArguments& arguments) {
  add_node_options(command, arguments.nodes);
  add_host_options(command, arguments);
  command.add_flag("--standalone", arguments.standalone, "One node, 127.0.0.1 and a free port, whatever else is said");
}

std::vector<HostSlots> settle_place(PlaceArguments& arguments, LaunchOptions& launch) {
  if (arguments.standalone) return {};
  if (!is_remote_agent() && arguments.hosts.empty() && arguments.hostfile.empty()) ask_scheduler(arguments.nodes);
  if (!arguments.nodes.master_addr.empty()) launch.master_addr = arguments.nodes.master_addr;
  launch.master_port = static_cast<std::uint16_t>(arguments.nodes.master_port.value_or(0));
  if (is_remote_agent()) {  // the hosts are the launcher's business; a hostfile may exist on its host alone
    launch.nodes = launched_node_options(arguments.nodes, 1);
    take_remote_place(*launch.nodes, launch.nproc);
    return {};
  }
  std::vector<HostSlots> hosts = hosts_of(arguments);
  launch.nodes = hosts.empty() ? parse_node_options(arguments.nodes)
                               : launched_node_options(arguments.nodes, static_cast<int>(hosts.size()));
  return hosts;
}

RemoteOptions remote_options(const PlaceArguments& arguments, const std::vector<HostSlots>& hosts, int ranks_per_host) {
  RemoteOptions remote;
  remote.hosts = hosts;
  remote.rsh = split_rsh(arguments.rsh);
  remote.command = own_command();
  remote.default_slots = ranks_per_host;
  remote.bind_address = arguments.nodes.master_addr;
  return remote;
}

}  // namespace tutti::tools
