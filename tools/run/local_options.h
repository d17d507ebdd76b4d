// What a user may choose about the ranks of one host: where their output goes and how it looks, which CPUs they get,
// who reads standard input. Values.
#pragma once

#include <tutti/tools/run/stream_map.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct LocalOptions {
  StreamMap redirects{};                 // these streams go to log files instead of the terminal ...
  StreamMap tees{};                      // ... and these to both
  std::vector<int> local_filter{};       // local ranks whose lines are shown; none: all
  std::vector<int> rank_filter{};        // the same by global rank
  std::optional<std::string> label;      // a template (label.h)
  bool fold = false;                     // equal lines of several ranks are shown once (line_folder.h)
  bool json = false;                     // each line is shown as a JSON object (line_printer.h)
  std::vector<std::vector<int>> cpus{};  // each local rank is pinned to these (cpu_plan.h); none: not pinned ...
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
