// What each rank of this host gets: its environment (torchrun's names, and Tutti's for the store and the secret), and
// what a user may choose about it: where its output goes and how it looks, its CPUs, standard input. Values and
// functions.
#pragma once

#include <tutti/tools/run/nodes/messages.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// What all ranks of one start of a job have in common on one node.
struct JobEnvironment {
  RoundPlan plan{.world_size = 1, .nodes = {NodePlace{}}};  // with the address where this node's ranks meet the others
  int node = 0;                                             // GROUP_RANK
  std::string secret{};
  int max_restarts = 0;

  const NodePlace& place() const { return plan.nodes.at(static_cast<std::size_t>(node)); }
};

/// This process's environment with the rank's variables set ("NAME=value", ready for exec) and then `extra` on top.
/// OMP_NUM_THREADS is set to omp_threads(the node's ranks) unless the user has set it.
std::vector<std::string> rank_environment(const JobEnvironment& job, int local_rank,
                                          const std::vector<std::string>& extra = {});

/// CPUs this process may use: those of its affinity mask, or fewer if its control group has a quota; at least 1.
int available_cpus();

/// CPUs for each of `ranks` ranks on this host; at least 1.
int omp_threads(int ranks);

/// A name for a job that no other job on any host has: "tutti-" and 16 random hex digits.
std::string new_job_id();

struct LocalOptions {
  int redirects = 0;                     // streams that go to log files instead of the terminal: 1 << Stream, or 3 ...
  int tees = 0;                          // ... and to both
  std::vector<int> rank_filter{};        // ranks whose lines are shown; none: all
  std::string label;                     // "rank" or "host" (rank_output.h); "": by the number of nodes
  std::vector<std::vector<int>> cpus{};  // each local rank is pinned to these (host.h); none: not pinned ...
  std::string why_not_bound;             // ... for this reason
  std::optional<int> stdin_rank;         // the rank that reads the launcher's standard input; nothing: none does
  std::string role = "default";          // ROLE_NAME
};

/// Pins each of `ranks` to CPUs of its own, or says in why_not_bound why not: one rank, fewer CPUs than ranks, places
/// that the user gave OpenMP, or programs that wait for CPUs on this host, unless `insists`. A rank that is pinned to a
/// CPU that others use, too, cannot move away, and all ranks wait for it: with two busy CPUs a long all_reduce took ten
/// times as long.
void divide_among_ranks(LocalOptions& options, int ranks, bool insists = false);

/// "NAME=value" of what a rank is told about these: its role (torchrun's names), and TUTTI_OWN_CPUS, by which libraries
/// know that its CPUs are its own already and not to be divided among the ranks of the host.
std::vector<std::string> local_variables(const LocalOptions& options, int local_rank, int rank, int world_size);

/// "2 ranks divide 4 CPUs, pinned: 0-1 | 2-3; OMP_NUM_THREADS=2". The last argument: the user's own, or null.
std::string describe_cpus(const LocalOptions& options, int ranks, int available, const char* omp_num_threads);

}  // namespace tutti::tools
