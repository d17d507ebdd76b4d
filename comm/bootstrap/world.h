// World: which rank is this process of its job, and where do the ranks meet?
//
// Values; detect() reads the environment it is given and, for a world of several ranks without TUTTI_JOB_SECRET, the
// file that job_secret.h describes. Nothing else. Which launchers' variables are known: launchers/launchers.h.
#pragma once

#include <tutti/comm/base/environment.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::comm {

/// What the caller knows already; each value that is set wins over the environment. Setting an option to another value
/// than the environment's is an error that prints both.
struct WorldOptions {
  std::optional<int> rank = std::nullopt;
  std::optional<int> world_size = std::nullopt;
  std::optional<std::string> master_addr = std::nullopt;
  std::optional<int> master_port = std::nullopt;
  /// "file:///PATH", "tcp://HOST:PORT", or what invite() has returned. With the latter, rank and world_size must be set
  /// here, and of the environment nothing but TUTTI_JOB_SECRET is read.
  std::optional<std::string> store = std::nullopt;
  /// The launcher that sets the variables: "auto", "none" (a world of one), "env" (RANK, WORLD_SIZE, ...), or one of
  /// launcher_names(). "" is "auto". Also by TUTTI_LAUNCHER.
  std::optional<std::string> launcher = std::nullopt;
};

struct World {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string master_addr;  // where Tutti's store server is; empty in a world of one
  std::uint16_t master_port = 0;
  std::string store_file;    // TUTTI_STORE=file:///PATH: the ranks meet there (file_store.h), not at master_addr
  std::string meeting_file;  // if set: rank 0 publishes its server's address in this file, the others read it there
  int pmi_descriptor = -1;   // if not: meeting_file is a folder, and the server that this leads to names the file
  std::string invitation{};  // if set: rank 0's server is where this announcement says
  std::string job_id;        // TUTTI_JOB_ID, else the scheduler's name for the job step, else "default"
  std::string job_secret;    // TUTTI_JOB_SECRET; see job_secret.h for where it comes from otherwise
  int cpus_per_rank = 0;     // as asked of the scheduler (SLURM_CPUS_PER_TASK); 0: not known
  bool launcher_owns_store = false;  // rank 0 must not start a server
  /// "explicit options", "RANK, WORLD_SIZE, ... in the environment", "Slurm step 7.0: SLURM_PROCID=3, ...",
  /// "nothing: one rank", with the reason where a scheduler's variables are there, but no step of it started this.
  std::string detected_from;

  /// Order: explicit options; RANK/WORLD_SIZE/LOCAL_RANK/LOCAL_WORLD_SIZE/MASTER_ADDR/MASTER_PORT (torchrun's names,
  /// which `tutti run` sets); the innermost launcher: Open MPI, MPICH and Intel MPI, Cray PALS, a Slurm step, PMI; a
  /// world of one. With these launchers rank 0 publishes where it is, unless MASTER_ADDR and MASTER_PORT or TUTTI_STORE
  /// say so: it is never guessed from a list of nodes. A place by RANK and WORLD_SIZE needs, with more than one rank,
  /// MASTER_ADDR and MASTER_PORT too, or in place of these TUTTI_STORE=file:///PATH or tcp://HOST:PORT (it wins), or
  /// TUTTI_MEET_DIR, a folder in which rank 0 publishes its address. Rank 0 serves the store, but where
  /// TORCHELASTIC_USE_AGENT_STORE=True says that the launcher does: Tutti's store at the variable TUTTI_STORE
  /// (`tutti run`), or without it PyTorch's at MASTER_ADDR (torchrun), where rank 0 publishes its address in a file,
  /// too. LOCAL_RANK and LOCAL_WORLD_SIZE may be missing: they equal RANK and WORLD_SIZE if the master's address is a
  /// loopback one; else the local rank counts as 0, and the local world as just large enough for it. Throws
  /// InvalidArgument for a half-set, contradictory or unparsable environment; the text lists what was found.
  static World detect(const WorldOptions& options = {}, const Environment& environment = process_environment());
};

/// For programs that can bring a text from one process to the others by themselves: starts a store server on a free
/// port, for one group of `world_size` ranks, and returns where it is. Each rank gives the text as WorldOptions::store;
/// the process that called invite() is one of them, and serves until its group ends. `one_host`: all ranks run on this
/// host. The text is printable, has less than 1.5 KiB, and holds a secret: any process that has it may join,
/// unless TUTTI_JOB_SECRET is set, which all ranks must have then. Throws System if no port can be opened.
/// Idea: ncclGetUniqueId (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html).
std::string invite(int world_size, bool one_host, const Environment& environment = process_environment());

}  // namespace tutti::comm
