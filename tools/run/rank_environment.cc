#include <sched.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/cgroup.h>
#include <tutti/tools/run/rank_environment.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace tutti::tools {
namespace {

using Variables = std::map<std::string, std::string>;

void assign(Variables& variables, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals != std::string::npos) variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
}

void add_rank_variables(Variables& variables, const JobEnvironment& job, int local_rank) {
  variables["RANK"] = std::to_string(job.first_rank + local_rank);
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["WORLD_SIZE"] = std::to_string(job.world_size);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(job.local_size);
  variables["GROUP_RANK"] = std::to_string(job.node);
  variables["GROUP_WORLD_SIZE"] = std::to_string(job.node_count);
  variables["MASTER_ADDR"] = job.master_addr;
  variables["MASTER_PORT"] = std::to_string(job.master_port);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(job.restart_count);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(job.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = job.job_id;
  variables["TUTTI_JOB_ID"] = job.job_id;
  variables["TUTTI_JOB_SECRET"] = job.job_secret;
  variables["TUTTI_LAUNCHER"] = "env";  // these variables count, whatever an outer launcher has left or was named
  for (const char* name : {"TUTTI_OWN_CPUS", "TUTTI_CONTROL", "TUTTI_WORKER"})
    variables.erase(name);                          // another launcher's
  variables.erase("TORCHELASTIC_USE_AGENT_STORE");  // of a launcher around this one
  const auto store = variables.find("TUTTI_STORE");
  const bool users_own = store != variables.end() && store->second.starts_with("file://");
  if (!users_own && store != variables.end()) variables.erase(store);
  if (job.store_port != 0) {
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    if (!users_own) variables["TUTTI_STORE"] = "tcp://" + comm::host_and_port(job.master_addr, job.store_port);
  }
}

}  // namespace

std::vector<std::string> rank_environment(const JobEnvironment& job, int local_rank,
                                          const std::vector<std::string>& extra) {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) assign(variables, *entry);
  add_rank_variables(variables, job, local_rank);
  variables.try_emplace("OMP_NUM_THREADS", std::to_string(omp_threads(job.local_size)));
  for (const std::string& assignment : extra) assign(variables, assignment);

  std::vector<std::string> result;
  result.reserve(variables.size());
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

int available_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  // Fails on machines with more CPUs than the set holds; then all that are online is the best answer.
  const bool known = sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
  const int count = known ? CPU_COUNT(&cpus) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const double quota = Cgroups().cpu_quota().value_or(count);
  return std::max(1, std::min(count, static_cast<int>(quota)));
}

int omp_threads(int ranks) { return std::max(1, available_cpus() / std::max(1, ranks)); }

std::string new_job_id() { return "tutti-" + comm::new_job_secret().substr(0, 16); }

}  // namespace tutti::tools
