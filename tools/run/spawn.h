// Starting one rank: a child process in a process group of its own that dies with its launcher.
#pragma once

#include <sys/types.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/leftovers.h>
#include <tutti/tools/run/report.h>
#include <tutti/tools/run/signals.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::tools {

/// The program could not be executed. `status` is what a shell would give: 127 not found, 126 found but not runnable.
class CannotExecute : public std::runtime_error {
 public:
  CannotExecute(const std::string& program, int error_number);
  int status() const { return status_; }

 private:
  int status_;
};

/// Descriptors from 3 upwards that this process hands to the programs it executes, in order. Taken when a launch
/// begins, so that the user's own (`<(...)` of a shell) reach the ranks and the launcher's own never do.
std::vector<int> inherited_descriptors();

/// Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed, so that no pipe or socket lands there.
void ensure_standard_descriptors();

struct Pipe {
  comm::Socket read_end, write_end;
};

/// Throws comm::Error{System}, with `purpose` in its text.
Pipe make_pipe(const std::string& purpose);

struct SpawnPlan {
  std::vector<std::string> command;      // argv; without a slash its first word is looked up in PATH
  std::vector<std::string> environment;  // all of it, "NAME=value"; none: that of this process
  std::vector<int> keep_open;            // from inherited_descriptors
  std::vector<int> cpus{};               // that it may run on; none: as this process
  int stdin_fd = -1;                     // becomes its standard input; -1: /dev/null does
};

struct SpawnedRank {
  pid_t pid = -1;  // also its process group
  int out = -1;    // read ends, non-blocking, close-on-exec; owned by the caller
  int err = -1;
};

/// Returns when the program runs. Must be called from a thread that lives as long as the rank does (the kernel's
/// parent-death signal looks at the thread). Throws CannotExecute or comm::Error{System}; then no child is left.
SpawnedRank spawn_rank(const SpawnPlan& plan, const SignalGuard& signals, const Keeper& keeper);

/// True if the process has ended, which `rank` then says, and when it was seen. It stays a zombie.
bool note_end(RankEnd& rank);

}  // namespace tutti::tools
