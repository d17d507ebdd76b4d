// A Slurm step: what `srun` gives each of its tasks, and how to tell a task from a process that merely runs in a job.
//
// SLURM_PROCID=0 and SLURM_NTASKS=6 do not make a world of six: sbatch's own script has them, too, and waiting for five
// others there is a hang. A task has SLURM_STEP_ID; SLURM_STEP_NUM_TASKS is its step's size, while SLURM_NTASKS may be
// the job's. A heterogeneous step (srun a : b) numbers its tasks as one. Nothing here looks at node lists: they are the
// job's, not the step's, or sorted anew (https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES").
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace tutti::comm {
namespace {

// Step numbers from here on are no steps of tasks: the batch script, the extern step, salloc's interactive shell.
constexpr std::uint32_t kFirstSpecialStep = 0xfffffff0;

std::optional<std::string> first_of(const Environment& environment, std::initializer_list<const char*> names,
                                    const char** found = nullptr) {
  for (const char* name : names) {
    auto value = environment(name);
    if (!value || value->empty()) continue;
    if (found) *found = name;
    return value;
  }
  return std::nullopt;
}

/// How many tasks are on this task's node, which srun lists them for. Counts by node (SLURM_STEP_TASKS_PER_NODE) are in
/// the order of the node list, which an arbitrary distribution sorts anew.
std::optional<int> tasks_here(const Environment& environment, int rank) {
  std::istringstream list(environment("SLURM_GTIDS").value_or(""));
  int count = 0;
  bool listed = false;
  for (std::string id; std::getline(list, id, ','); ++count) listed = listed || id == std::to_string(rank);
  return listed ? std::optional(count) : std::nullopt;
}

/// A name of this step alone, also where several clusters share a home and where Slurm restarts a job.
std::string step_name(const Environment& environment, const std::string& step) {
  std::string name = "slurm";
  if (const auto cluster = environment("SLURM_CLUSTER_NAME")) name += "-" + *cluster;
  name += "-" + first_of(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}).value_or("0") + "." + step;
  if (const auto restarts = environment("SLURM_RESTART_COUNT")) name += "-restart" + *restarts;
  return name;
}

LauncherSearch outside_of_steps(const Environment& environment, const std::string& job) {
  LauncherSearch search;
  search.remark = "Slurm job " + job + ", but no step of it started this process (no SLURM_STEP_ID)";
  if (const auto tasks = first_of(environment, {"SLURM_NTASKS", "SLURM_NPROCS"})) {
    search.remark += "; of its SLURM_NTASKS=" + *tasks + " tasks this is none";
    search.expects_more = *tasks != "1";
  }
  search.remark += ": start ranks by srun, or by `tutti run`";
  return search;
}

/// The variable's text as a number, 0 for one that is missing or malformed: srun gives it in many forms.
int cpus_per_task(const Environment& environment) {
  const std::string text = environment("SLURM_CPUS_PER_TASK").value_or("0");
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && value > 0 && value <= kMostLaunchedRanks ? value
                                                                                                               : 0;
}

bool is_step_of_tasks(const std::string& step) {
  std::uint32_t number = 0;
  const auto [end, status] = std::from_chars(step.data(), step.data() + step.size(), number);
  return status == std::errc() && end == step.data() + step.size() && number < kFirstSpecialStep;
}

}  // namespace

LauncherSearch find_slurm_step(const Environment& environment) {
  const auto job = first_of(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  const auto step = first_of(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  if (!job) return {};
  if (!step || !is_step_of_tasks(*step)) return outside_of_steps(environment, *job);
  const char* size_name = "";
  const auto rank = environment("SLURM_PROCID");
  const auto size = first_of(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, &size_name);
  if (!rank || !size)
    throw Error(ErrorCode::InvalidArgument,
                "this process belongs to Slurm step " + *job + "." + *step + ", but " +
                    (rank ? "SLURM_STEP_NUM_TASKS" : "SLURM_PROCID") + " is missing (found: " +
                    launcher_listing({"SLURM_PROCID", size_name, "SLURM_LOCALID"}, environment) +
                    "); start it by srun, or set TUTTI_LAUNCHER=none to run one rank");
  LaunchedPlace place;
  place.title = "Slurm step " + *job + "." + *step;
  place.rank = launcher_number("SLURM_PROCID", *rank, 0, kMostLaunchedRanks - 1);
  place.world_size = launcher_number(size_name, *size, 1, kMostLaunchedRanks);
  if (const auto local = environment("SLURM_LOCALID"))
    place.local_rank = launcher_number("SLURM_LOCALID", *local, 0, kMostLaunchedRanks - 1);
  place.local_world_size = tasks_here(environment, place.rank);
  place.job = step_name(environment, *step);
  place.cpus_per_rank = cpus_per_task(environment);
  place.source =
      place.title + ": " + launcher_listing({"SLURM_PROCID", size_name, "SLURM_LOCALID", "SLURM_GTIDS"}, environment);
  return {.place = std::move(place), .remark = {}, .expects_more = false};
}

}  // namespace tutti::comm
