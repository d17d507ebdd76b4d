// What /proc tells of other processes: whether one is stopped, and which are strays.
//
// Strays: processes that ranks have started and left, in sessions of their own too (setsid, daemons).
//
// No signal to a rank's process group reaches those. While this object lives the calling process is a child subreaper:
// the kernel makes a process whose parent has ended its child, so that it can be found and ended with the job. Where
// the kernel does not list a process's children (CONFIG_PROC_CHILDREN) nothing is changed, and nothing found.
// Thread-safety: one thread, the one that starts the ranks.
#pragma once

#include <sys/types.h>

#include <set>

namespace tutti::tools {

class Strays {
 public:
  /// Children that are there already are none.
  Strays();
  ~Strays();
  Strays(const Strays&) = delete;
  Strays& operator=(const Strays&) = delete;

  /// Reaps those that have ended. `own`: children that the launcher itself has started and waits for.
  void reap(const std::set<pid_t>& own) const;
  /// Kills them and what they have started; returns when they are gone, or after some seconds if the kernel holds one.
  void end(const std::set<pid_t>& own) const;

 private:
  std::set<pid_t> found(const std::set<pid_t>& own) const;

  std::set<pid_t> before_;
  int was_subreaper_ = 0;
};

/// Stopped by a signal or a debugger. False for a process that is not there.
bool is_stopped(pid_t pid);

}  // namespace tutti::tools
