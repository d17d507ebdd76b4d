// The far side of -H and --hostfile: how `tutti run --agent`, started over ssh or the like, becomes an agent.
//
// It reads the settings from standard input, where neither the process list nor a log can see the secret; goes to the
// launcher's folder, takes over some of its environment, and executes itself with the launcher's own command line. Its
// place in the job comes in an environment variable that no rank inherits. When standard input ends, the launcher's
// connection is gone, and the agent ends its ranks (agent.cc).
#pragma once

#include <tutti/tools/run/nodes/node_options.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tools {

/// What the launcher sends.
struct RemoteSettings {
  std::string secret;
  std::string folder;                    // working directory
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<std::string> command;      // the launcher's own
  std::string host;                      // this node's name, as the launcher was given it
  int node = 0;
  int nodes = 1;
  int nproc = 1;
  std::uint16_t port = 0;              // of the control store
  std::vector<std::string> addresses;  // of the launcher's host, the likeliest first
};

/// A line of the agent's standard output and error: what came before is the remote shell's own.
inline constexpr char kAgentMark[] = "tutti-agent-begins";

/// As CBOR: paths and variables may hold any bytes.
std::string encode_settings(const RemoteSettings& settings);

/// `tutti run --agent`: executes the launcher's command line; returns an exit status only if that fails.
int become_agent();

/// become_agent has given this process a place.
bool is_remote_agent();
/// Puts the place into `options` and `nproc`, and takes it out of the environment.
void take_remote_place(NodeOptions& options, int& nproc);

}  // namespace tutti::tools
