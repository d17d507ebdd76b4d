// What ranks and a killed launcher may leave behind, and how it ends with the job.
//
// Keeper: a tiny process that outlives a killed launcher just long enough to kill what it left behind.
//
// A rank asks the kernel to be killed with its launcher, but that does not reach the processes a rank has started. The
// keeper holds the read end of a pipe whose write end the launcher holds, and a table in memory that both share. Ranks
// put their process group there before they exec; when the launcher is gone, in whatever way, the keeper reads
// end-of-file, kills the groups that still stand in the table, and ends. It blocks every signal that can be blocked,
// goes by a name of its own, and keeps no other descriptor open. One that is killed all the same is replaced.
//
// Strays: processes that ranks have started and left, in sessions of their own too (setsid, daemons).
//
// No signal to a rank's process group reaches those. While this object lives the calling process is a child subreaper:
// the kernel makes a process whose parent has ended its child, so that it can be found and ended with the job. Where
// the kernel does not list a process's children (CONFIG_PROC_CHILDREN) nothing is changed, and nothing found.
//
// Thread-safety: one thread, the one that starts the ranks.
#pragma once

#include <sys/types.h>
#include <tutti/comm/wire/socket.h>

#include <atomic>
#include <set>
#include <span>
#include <string>

namespace tutti::tools {

class Keeper {
 public:
  /// Forks the keeper. `capacity`: how many groups may be registered at one time. Throws comm::Error{System}.
  explicit Keeper(int capacity);
  /// Closes the pipe and reaps the keeper, which kills groups that are still registered.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  pid_t pid() const { return pid_; }

  /// To be called when a child has ended. If that was the keeper another takes its place, if it can be started; a
  /// sentence says so. Else "".
  std::string replace_if_dead();

  /// Registers the calling process as leader of a group. Async-signal-safe: for a child between fork and exec.
  void register_self() const noexcept;

  /// To be called before `pid` is reaped: afterwards the number may belong to somebody else.
  void forget(pid_t pid) const noexcept;

 private:
  void start();

  std::span<std::atomic<pid_t>> groups_;  // shared with the keeper; 0: a free place
  std::span<char> command_line_;          // of this process, as `ps` shows it
  pid_t pid_ = -1;
  comm::Socket write_end_;
};

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
