// Which launcher started this process, and what place it gave it. Internal to comm; World::detect is the public face.
//
// A table of variables, one row for each launcher. Rows are tried from the inside out: mpirun within a Slurm job starts
// its daemons as a Slurm step of their own, whose SLURM_PROCID the ranks inherit; so Open MPI's and Hydra's variables
// are asked before Slurm's. Sources: srun(1) "OUTPUT ENVIRONMENT VARIABLES"; https://docs.open-mpi.org (mpirun,
// "Environmental variables"); MPICH's Hydra; and the environments that these launchers were seen to give
// (tests/comm/launchers_test.cc).
//
// Thread-safety: pure functions of the environment they are given; pmi_job_name() is for one thread at a time.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/bootstrap/world.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

inline constexpr int kMostLaunchedRanks = 1 << 20;

struct LaunchedPlace {
  std::string source;  // "Slurm step 7.0: SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=6, ..."
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_world_size;
  std::string job;          // a name that no other job of this user has; "" if the variables do not give one
  int pmi_descriptor = -1;  // of a connection to a server that speaks PMI version 1
  int cpus_per_rank = 0;
};

struct LauncherSearch {
  std::optional<LaunchedPlace> place;
  /// Without a place: the scheduler whose variables are set all the same, and why they give none. Empty if there is no
  /// sign of one.
  std::string remark;
  bool expects_more = false;  // that scheduler was asked for several tasks: one rank may not be what was meant
};

/// Names for WorldOptions::launcher beside "auto", "none" and "env".
std::vector<std::string> launcher_names();

/// `chosen` is "auto", or one of launcher_names(): then only this launcher's variables are read, and must be set.
/// Throws InvalidArgument, with what was found, where they are half set, contradict each other or are no numbers.
LauncherSearch find_launcher(const std::string& chosen, const Environment& environment);

/// The job's name by the PMI server that PMI_FD=`descriptor` is connected to; no other job has it. The descriptor
/// belongs to the process: not while MPI_Init runs. Says "finalize" to the server when this process exits in good
/// order, if the descriptor is still the same connection then (MPI_Finalize closes it), and not in its forked children.
/// Throws Timeout, Protocol if the server does not speak PMI version 1, System if it has gone.
std::string pmi_job_name(int descriptor, Deadline deadline);

/// Where files to meet in are: TUTTI_MEET_DIR, else <home>/.config/tutti/meet, beside the job secret, which all hosts
/// must see as well. Throws InvalidArgument if there is neither, or TUTTI_MEET_DIR is no absolute path.
std::string meeting_folder(const Environment& environment);
/// The name of the file for a job of this name.
std::string meeting_name(const std::string& job);
/// Both.
std::string meeting_path(const std::string& job, const Environment& environment);

}  // namespace tutti::comm
