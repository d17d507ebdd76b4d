// The agent: one node's part of a job on several nodes.
//
// Joins the others, and for each round runs an Attempt with the node's place in it; tells the coordinator how it ended
// and does what the coordinator decides. The agent that coordinates owns the Coordinator, too.
#pragma once

#include <tutti/tools/run/launch_context.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

/// Runs this node's ranks until the job has ended. context.options.nodes must be set. Returns the exit status, which
/// is the same on all nodes; throws comm::Error and CannotExecute where the job cannot be started here.
int run_agent(LaunchContext& context);

/// The settings that all agents of a job must share, with their values: options.nodes must be set.
std::vector<std::pair<std::string, std::string>> agreed_settings(const LaunchOptions& options);

/// This host's own name, for people.
std::string agent_host_name();

}  // namespace tutti::tools
