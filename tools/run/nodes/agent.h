// The agent: one node's part of a job on several nodes.
//
// Joins the others, and for each round runs an Attempt with the node's place in it; tells the coordinator how it ended
// and does what the coordinator decides. The agent that coordinates owns the Coordinator, too.
#pragma once

#include <tutti/tools/run/launch_context.h>

namespace tutti::tools {

/// Runs this node's ranks until the job has ended. context.options.nodes must be set. Returns the exit status, which
/// is the same on all nodes; throws comm::Error and CannotExecute where the job cannot be started here.
int run_agent(LaunchContext& context);

}  // namespace tutti::tools
