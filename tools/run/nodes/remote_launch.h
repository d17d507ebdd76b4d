// -H and --hostfile: one launcher starts an agent on each host by a remote command (ssh, or any like it), coordinates
// them, and shows what all ranks print. It has no ranks of its own.
#pragma once

#include <tutti/tools/run/launch_context.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <string>
#include <vector>

namespace tutti::tools {

struct RemoteOptions {
  std::vector<HostSlots> hosts;
  std::vector<std::string> rsh{"ssh"};  // called as RSH... HOST COMMAND-LINE
  std::string bind_address;             // of the control store; "": all interfaces
};

/// "ssh -p 2222" as words, as a shell splits and expands them; commands in it are not executed. Throws
/// std::invalid_argument.
std::vector<std::string> split_rsh(const std::string& text);

/// Runs the job to its end; returns its exit status. As launch() for everything else; options.nproc is the number of
/// ranks of hosts that come without one. The agents repeat this program's own command line.
int launch_remotely(const LaunchOptions& options, const RemoteOptions& remote);

}  // namespace tutti::tools
