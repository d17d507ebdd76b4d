// The options of `tutti run` that say where the ranks run: as one node of several, on the hosts of a list, or here.
#pragma once

#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/node_options.h>
#include <tutti/tools/run/nodes/remote_launch.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// As they were written on the command line.
struct PlaceArguments {
  NodeArguments nodes;
  std::string hosts, hostfile;
  std::string rsh = "ssh";
  bool standalone = false;
};

void add_place_options(CLI::App& command, PlaceArguments& arguments);

/// Puts the job's nodes into `launch`; a scheduler that has started this agent is asked for what was not written.
/// Returns the hosts on which this launcher is to start agents; none: it is an agent itself. Throws
/// std::invalid_argument with one sentence, and comm::Error for a scheduler's variables.
std::vector<HostSlots> settle_place(PlaceArguments& arguments, LaunchOptions& launch);

/// How to start the agents of `hosts`; `ranks_per_host` where a host has no number of its own.
RemoteOptions remote_options(const PlaceArguments& arguments, const std::vector<HostSlots>& hosts, int ranks_per_host);

}  // namespace tutti::tools
