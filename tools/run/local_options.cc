#include <tutti/tools/run/cpu_plan.h>
#include <tutti/tools/run/local_options.h>
#include <tutti/tools/run/ranges.h>

#include <cstdlib>

namespace tutti::tools {
namespace {

constexpr double kMostPressure = 10;

// OpenMP run times take CPU numbers from these, and would miss those of other ranks.
const char* users_own_places() {
  for (const char* name : {"GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES"}) {
    if (std::getenv(name) != nullptr) return name;
  }
  return nullptr;
}

}  // namespace

void divide_among_ranks(LocalOptions& options, int ranks, bool insists) {
  if (const char* name = users_own_places()) {
    options.why_not_bound = std::string(name) + " is set";
  } else if (!insists && cpu_pressure() > kMostPressure) {
    options.why_not_bound = "programs are waiting for CPUs on this host; --bind pins all the same";
  } else if (ranks > 1) {
    options.cpus = divide_cpus(allowed_cpus(), ranks);
    if (options.cpus.empty()) options.why_not_bound = "there are more ranks than CPUs";
  }
}

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
