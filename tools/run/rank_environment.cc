#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/host.h>
#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/rank_environment.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace tutti::tools {
namespace {

using Variables = std::map<std::string, std::string>;

void assign(Variables& variables, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals != std::string::npos) variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
}

void add_rank_variables(Variables& variables, const JobEnvironment& job, int local_rank) {
  variables["RANK"] = std::to_string(job.place().first_rank + local_rank);
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["WORLD_SIZE"] = std::to_string(job.plan.world_size);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(job.place().nproc);
  variables["GROUP_RANK"] = std::to_string(job.node);
  variables["GROUP_WORLD_SIZE"] = std::to_string(job.plan.nodes.size());
  variables["MASTER_ADDR"] = job.plan.master_addr;
  variables["MASTER_PORT"] = std::to_string(job.plan.master_port);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(job.plan.restart_count);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(job.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = job.plan.job_id;
  variables["TUTTI_JOB_ID"] = job.plan.job_id;
  variables["TUTTI_JOB_SECRET"] = job.secret;
  variables["TUTTI_LAUNCHER"] = "env";  // these variables count, whatever an outer launcher has left or was named
  for (const char* name : {"TUTTI_OWN_CPUS", "TUTTI_CONTROL", "TUTTI_WORKER"})
    variables.erase(name);                          // another launcher's
  variables.erase("TORCHELASTIC_USE_AGENT_STORE");  // of a launcher around this one
  const auto store = variables.find("TUTTI_STORE");
  const bool users_own = store != variables.end() && store->second.starts_with("file://");
  if (!users_own && store != variables.end()) variables.erase(store);
  if (job.plan.store_port != 0) {
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    if (!users_own)
      variables["TUTTI_STORE"] = "tcp://" + comm::host_and_port(job.plan.master_addr, job.plan.store_port);
  }
  if (job.plan.control_port != 0) {
    variables["TUTTI_CONTROL"] = comm::host_and_port(job.plan.master_addr, job.plan.control_port);
    variables["TUTTI_WORKER"] = comm::WorkerId{.node = job.node, .slot = local_rank}.text();
  }
}

constexpr double kMostPressure = 10;

// OpenMP run times take CPU numbers from these, and would miss those of other ranks.
const char* users_own_places() {
  for (const char* name : {"GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES"}) {
    if (std::getenv(name) != nullptr) return name;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> rank_environment(const JobEnvironment& job, int local_rank,
                                          const std::vector<std::string>& extra) {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) assign(variables, *entry);
  add_rank_variables(variables, job, local_rank);
  variables.try_emplace("OMP_NUM_THREADS", std::to_string(omp_threads(job.place().nproc)));
  for (const std::string& assignment : extra) assign(variables, assignment);

  std::vector<std::string> result;
  result.reserve(variables.size());
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

int available_cpus() {
  const std::size_t own = affinity().size();
  const int count = own > 0 ? static_cast<int>(own) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const double quota = Cgroups().cpu_quota().value_or(count);
  return std::max(1, std::min(count, static_cast<int>(quota)));
}

int omp_threads(int ranks) { return std::max(1, available_cpus() / std::max(1, ranks)); }

std::string new_job_id() { return "tutti-" + comm::new_job_secret().substr(0, 16); }

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
