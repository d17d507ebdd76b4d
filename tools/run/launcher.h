// The launcher: starts the ranks of a job on this host, shows what they print, and names the one that fails. For a job
// on several nodes it is the agent of this one (nodes/agent.h).
//
// Used by `tutti run` and by `tutti train --nproc N`. See tools/README.md for how a job ends.
//
// launch() must be called from the program's main thread, before other threads exist that handle signals: for its time
// it blocks INT, TERM, HUP, QUIT, USR1, USR2, TSTP and CHLD and receives them itself. It leaves no process behind, also
// when it is killed itself.
#pragma once

#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/elastic/next_generation.h>
#include <tutti/tools/run/nodes/node_options.h>
#include <tutti/tools/run/rank_environment.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct LaunchOptions {
  int nproc = 1;
  std::vector<std::string> command;             // argv; looked up in PATH
  std::chrono::milliseconds grace{2000};        // between the signal that ends ranks and SIGKILL
  std::chrono::milliseconds term_grace{30000};  // that after a SIGTERM to the launcher: ranks may write checkpoints
  std::string master_addr = comm::loopback_address();  // the store servers bind exactly this address
  std::uint16_t master_port = 0;                       // of the one for PyTorch's clients; 0: the kernel picks one
  bool store = true;     // false: no servers; the program's rank 0 listens on MASTER_PORT itself
  std::string log_dir;   // "": none; else output goes to files there: all of it, or what local.redirects and tees say
  int max_restarts = 0;  // after a failure all ranks are started again, this many times
  bool label = true;     // "[rank 1] " before each line; without local.label one rank alone has none
  bool verbose = false;
  LocalOptions local{};
  std::optional<ElasticLimits> elastic = std::nullopt;  // lost ranks are replaced, max_restarts times
  std::optional<NodeOptions> nodes = std::nullopt;  // a job on several nodes; master_addr and master_port are not used
  std::optional<RemoteOptions> remote = std::nullopt;  // this launcher starts agents, and `nproc` is for hosts without
  std::string name = "tutti run";                      // begins every message
  std::vector<std::string> environment{};              // "NAME=value", on top of the launcher's
};

/// Runs the job to its end. Returns the exit status for the calling program: 0; the first failing rank's own (128 +
/// signal when it was killed); 127 or 126 when the program cannot be executed; 1 when the job could not be started; 2
/// for options that make no sense. Messages go to standard error.
int launch(const LaunchOptions& options);

/// The path of the running program, for a program that launches itself.
std::string this_program();

}  // namespace tutti::tools
