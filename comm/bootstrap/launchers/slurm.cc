#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/launchers/slurm.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

namespace tutti::comm {
namespace {

constexpr std::size_t kMostNodes = 65536;
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

/// How many tasks are on this task's node. SLURM_GTIDS lists them; the counts of all nodes are in the order of the
/// node list, which an arbitrary distribution sorts anew, and serve only where that list is missing.
std::optional<int> tasks_here(const Environment& environment, int rank) {
  if (const auto ids = environment("SLURM_GTIDS")) {
    std::istringstream list(*ids);
    int count = 0;
    bool listed = false;
    for (std::string id; std::getline(list, id, ','); ++count) listed = listed || id == std::to_string(rank);
    if (listed) return count;
  }
  const auto node = environment("SLURM_NODEID");
  const auto text = environment("SLURM_STEP_TASKS_PER_NODE");
  if (!node || !text) return std::nullopt;
  const auto counts = slurm_counts(*text);
  const auto index = static_cast<std::size_t>(launcher_number("SLURM_NODEID", *node, 0, kMostLaunchedRanks));
  if (!counts || index >= counts->size()) return std::nullopt;
  return (*counts)[index];
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

std::optional<std::vector<int>> slurm_counts(const std::string& text) {
  std::vector<int> counts;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int least) {
    int value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    at = next;
    return status == std::errc() && value >= least ? value : -1;
  };
  const auto accept = [&](const std::string_view word) {
    if (!std::string_view(at, static_cast<std::size_t>(end - at)).starts_with(word)) return false;
    at += word.size();
    return true;
  };
  do {
    const int count = number(0);
    int times = 1;
    if (accept("(x")) {
      times = number(1);
      if (!accept(")")) return std::nullopt;
    }
    if (count < 0 || times < 1 || counts.size() + static_cast<std::size_t>(times) > kMostNodes) return std::nullopt;
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
  } while (accept(","));
  if (at != end) return std::nullopt;
  return counts;
}

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
