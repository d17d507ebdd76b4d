// What lives as long as one launch, whether the job has one node or several.
#pragma once

#include <sys/prctl.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/leftovers.h>
#include <tutti/tools/run/output.h>
#include <tutti/tools/run/signals.h>
#include <tutti/tools/run/spawn.h>

#include <string>
#include <vector>

namespace tutti::tools {

/// Members are made in this order: signals first (threads made later inherit the mask), then the keeper (forked while
/// there are no other threads).
struct LaunchContext {
  /// `groups`: how many process groups may live at one time.
  LaunchContext(const LaunchOptions& launch_options, int groups)
      : options(launch_options), keep_open(inherited_descriptors()), keeper(groups) {
    ::prctl(PR_GET_NAME, name_before_);
    ::prctl(PR_SET_NAME, "tutti-launcher");
  }
  ~LaunchContext() { ::prctl(PR_SET_NAME, name_before_); }
  LaunchContext(const LaunchContext&) = delete;
  LaunchContext& operator=(const LaunchContext&) = delete;

  /// Queues "tutti run: <text>".
  void say(const std::string& text) { console.err().push(options.name + ": " + text); }

  /// Writes what is queued. A reader that does not read can be left with Ctrl-C.
  void flush();

  const LaunchOptions& options;
  const std::vector<int> keep_open;
  SignalGuard signals;
  Keeper keeper;
  Console console;

 private:
  char name_before_[16] = "";  // of this process, as `top` shows it
};

/// A job on several nodes: runs this one's part to its end, and returns the exit status. options.nodes must be set.
/// Throws comm::Error and CannotExecute for what keeps it from beginning.
int run_agent(LaunchContext& context);

/// The same for options.remote: agents of other hosts run the job, and this launcher has no ranks of its own.
int run_remotely(LaunchContext& context);

}  // namespace tutti::tools
