#include <tutti/tools/run/local_options.h>
#include <tutti/tools/run/ranges.h>

namespace tutti::tools {

std::vector<std::string> local_variables(const LocalOptions& options, int local_rank, int rank, int world_size) {
  std::vector<std::string> result{"ROLE_NAME=" + options.role, "ROLE_RANK=" + std::to_string(rank),
                                  "ROLE_WORLD_SIZE=" + std::to_string(world_size)};
  if (!options.cpus.empty()) {
    result.push_back("TUTTI_OWN_CPUS=" + to_ranges(options.cpus.at(static_cast<std::size_t>(local_rank))));
  }
  return result;
}

std::string describe_cpus(const LocalOptions& options, int ranks, int available, const char* omp_num_threads) {
  const std::string of_ranks = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  const std::string of_cpus = std::to_string(available) + (available == 1 ? " CPU" : " CPUs");
  std::string text = of_ranks + (ranks == 1 ? " has " : " share ") + of_cpus + ", not pinned";
  if (!options.cpus.empty()) {
    text = of_ranks + (ranks == 1 ? " has " : " divide ") + of_cpus + ", pinned:";
    for (std::size_t i = 0; i < options.cpus.size(); ++i) text += (i == 0 ? " " : " | ") + to_ranges(options.cpus[i]);
  } else if (!options.why_not_bound.empty()) {
    text += " (" + options.why_not_bound + ")";
  }
  const int threads = available / ranks > 0 ? available / ranks : 1;
  return text + "; OMP_NUM_THREADS=" +
         (omp_num_threads != nullptr ? omp_num_threads + std::string(" of the environment") : std::to_string(threads));
}

}  // namespace tutti::tools
