#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>

namespace tutti::comm {
namespace {

using Names = std::vector<const char*>;  // the first that is set counts

/// One launcher's variables.
struct Launcher {
  const char* name;
  const char* title;
  Names signs{};  // one of these must be set as well; none: rank and size say enough
  Names rank;
  Names size;
  Names local_rank{};
  Names local_size{};
  Names local_list{};  // instead of local_size: the ranks of this node, as in "0,2,4"
  Names job{};         // all that are set, together, name the job
  bool pmi1 = false;   // PMI_FD leads to a server that speaks PMI version 1
  bool slurm = false;  // the variables may be there though it has started no rank: why_no_step()
};

/// From the inside out. Open MPI's node rank and universe size are no node number and no world size, and not used.
const std::vector<Launcher>& launchers() {
  static const auto& all = *new std::vector<Launcher>{
      {.name = "openmpi",
       .title = "Open MPI",
       .rank = {"OMPI_COMM_WORLD_RANK"},
       .size = {"OMPI_COMM_WORLD_SIZE"},
       .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
       .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       .job = {"PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports"}},
      {.name = "intel",
       .title = "Intel MPI",
       .signs = {"I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_UUID", "I_MPI_MPIRUN"},
       .rank = {"PMI_RANK"},
       .size = {"PMI_SIZE"},
       .local_rank = {"MPI_LOCALRANKID"},
       .local_size = {"MPI_LOCALNRANKS"},
       .job = {"I_MPI_HYDRA_UUID", "PMI_PORT"},
       .pmi1 = true},
      {.name = "mpich",
       .title = "MPICH (Hydra)",
       .signs = {"MPI_LOCALRANKID", "HYDI_CONTROL_FD"},
       .rank = {"PMI_RANK"},
       .size = {"PMI_SIZE"},
       .local_rank = {"MPI_LOCALRANKID"},
       .local_size = {"MPI_LOCALNRANKS"},
       .job = {"PMI_PORT"},
       .pmi1 = true},
      {.name = "cray",
       .title = "Cray PALS",
       .signs = {"PALS_APID"},
       .rank = {"PALS_RANKID", "PMI_RANK"},
       .size = {"PMI_SIZE"},
       .local_rank = {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
       .local_size = {"PMI_LOCAL_SIZE"},
       .job = {"PALS_APID"}},
      {.name = "slurm",
       .title = "Slurm",
       .signs = {"SLURM_JOB_ID"},
       .rank = {"SLURM_PROCID"},
       .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       .local_rank = {"SLURM_LOCALID"},
       .local_list = {"SLURM_GTIDS"},
       .job = {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
       .slurm = true},
      {.name = "pmi",
       .title = "PMI",
       .rank = {"PMI_RANK"},
       .size = {"PMI_SIZE"},
       .local_rank = {"PMI_LOCAL_RANK", "MPI_LOCALRANKID"},
       .local_size = {"PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"},
       .job = {"PMI_JOBID", "PMI_PORT"}},
  };
  return all;
}

/// An empty variable counts as one that is not set.
const char* first_set(const Names& names, const Environment& environment) {
  for (const char* name : names)
    if (!environment(name).value_or("").empty()) return name;
  return nullptr;
}

std::optional<int> number_of(const Names& names, int least, const Environment& environment) {
  const char* name = first_set(names, environment);
  if (name == nullptr) return std::nullopt;
  return whole_number(name, *environment(name), least, kMostLaunchedRanks - (least == 0 ? 1 : 0),
                      "; if no launcher set it, unset it or set TUTTI_LAUNCHER=none");
}

std::string alternatives(const Names& names) { return listed(names, " or "); }

/// "SLURM_PROCID=3, SLURM_LOCALID=1" of those that are set.
std::string listing(const Names& names, const Environment& environment) {
  std::string text;
  for (const char* name : names)
    if (const auto value = environment(name))
      text += (text.empty() ? "" : ", ") + std::string(name) + "=" + printable(*value, 60);
  return text;
}

std::string job_name(const Launcher& launcher, const Environment& environment) {
  std::string name;
  for (const char* variable : launcher.job) {
    const auto value = environment(variable);
    if (value && !value->empty()) name += "-" + *value;
  }
  return name.empty() ? name : launcher.name + name;
}

/// Counts by node (SLURM_STEP_TASKS_PER_NODE) would be in the order of the node list, which an arbitrary distribution
/// sorts anew.
std::optional<int> count_listed(const Names& names, int rank, const Environment& environment) {
  const char* name = first_set(names, environment);
  const std::vector<std::string> ranks = split(name == nullptr ? "" : *environment(name), ',');
  const bool listed = std::ranges::find(ranks, std::to_string(rank)) != ranks.end();
  return listed ? std::optional(static_cast<int>(ranks.size())) : std::nullopt;
}

/// A step of tasks is what `srun` starts. SLURM_PROCID=0 and SLURM_NTASKS=6 do not make a world of six: sbatch's own
/// script has them, too, and waiting for five others there is a hang. A task has SLURM_STEP_ID; SLURM_STEP_NUM_TASKS is
/// its step's size, while SLURM_NTASKS may be the job's. A heterogeneous step (srun a : b) numbers its tasks as one.
/// Nothing here looks at node lists: they are the job's, not the step's, or sorted anew
/// (https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES").
LauncherSearch why_no_step(const Environment& environment) {
  constexpr std::uint32_t kFirstSpecialStep = 0xfffffff0;  // the batch script, the extern step, salloc's shell
  const auto step = decimal<std::uint32_t>(environment("SLURM_STEP_ID").value_or(""));
  LauncherSearch search;
  if (step.value_or(kFirstSpecialStep) < kFirstSpecialStep) return search;
  search.remark =
      "Slurm job " + *environment("SLURM_JOB_ID") + ", but no step of it started this process (no SLURM_STEP_ID)";
  if (const char* tasks = first_set({"SLURM_NTASKS", "SLURM_NPROCS"}, environment)) {
    search.remark += "; of its SLURM_NTASKS=" + *environment(tasks) + " tasks this is none";
    search.expects_more = *environment(tasks) != "1";
  }
  search.remark += ": start ranks by srun, or by `tutti run`";
  return search;
}

/// 0 where it is missing or malformed: srun gives it in many forms.
int slurm_cpus_per_task(const Environment& environment) {
  const int cpus = decimal<int>(environment("SLURM_CPUS_PER_TASK").value_or("")).value_or(0);
  return cpus > 0 && cpus <= kMostLaunchedRanks ? cpus : 0;
}

LauncherSearch find_by_row(const Launcher& launcher, const Environment& environment) {
  const char* sign = first_set(launcher.signs, environment);
  if (!launcher.signs.empty() && sign == nullptr) return {};
  if (launcher.slurm)
    if (LauncherSearch outside = why_no_step(environment); !outside.remark.empty()) return outside;
  const char* rank = first_set(launcher.rank, environment);
  const char* size = first_set(launcher.size, environment);
  if (rank == nullptr && size == nullptr && !launcher.slurm) return {};
  Names used = {rank ? rank : launcher.rank.front(), size ? size : launcher.size.front()};
  if (rank == nullptr || size == nullptr) {
    if (sign != nullptr) used.insert(used.begin(), sign);
    refuse(launcher.title, "'s variables are half set: ", listing(used, environment), ", but no ",
           alternatives(rank ? launcher.size : launcher.rank),
           "; start this process by that launcher, set RANK and WORLD_SIZE, or TUTTI_LAUNCHER=none to run one "
           "rank");
  }
  LaunchedPlace place;
  place.rank = *number_of(launcher.rank, 0, environment);
  place.world_size = *number_of(launcher.size, 1, environment);
  place.local_rank = number_of(launcher.local_rank, 0, environment);
  place.local_world_size = launcher.local_list.empty() ? number_of(launcher.local_size, 1, environment)
                                                       : count_listed(launcher.local_list, place.rank, environment);
  place.job = job_name(launcher, environment);
  if (launcher.pmi1) place.pmi_descriptor = number_of({"PMI_FD"}, 0, environment).value_or(-1);
  if (launcher.slurm) place.cpus_per_rank = slurm_cpus_per_task(environment);
  for (const Names& names : {launcher.local_rank, launcher.local_size, launcher.local_list})
    if (const char* name = first_set(names, environment)) used.push_back(name);
  const std::string step =
      launcher.slurm ? " step " + *environment("SLURM_JOB_ID") + "." + *environment("SLURM_STEP_ID") : "";
  place.source = launcher.title + step + ": " + listing(used, environment);
  if (place.rank >= place.world_size)
    refuse(place.source, ": rank ", place.rank, " does not exist in a world of ", place.world_size,
           " (ranks count from 0); if that launcher did not start this process, "
           "set TUTTI_LAUNCHER=none or unset these variables");
  return {.place = std::move(place), .remark = {}, .expects_more = false};
}

/// A job script of PBS (or of Torque, which has the same variables) is one process, however many slots it has.
std::string remark_on_pbs(const Environment& environment) {
  const auto job = environment("PBS_JOBID");
  if (!job) return {};
  return "PBS job " + printable(*job, 100) +
         ": PBS starts one process, and lists the hosts for others in PBS_NODEFILE; start ranks by mpirun or "
         "by `tutti run`";
}

}  // namespace

std::vector<std::string> launcher_names() {
  std::vector<std::string> names;
  for (const Launcher& launcher : launchers()) names.emplace_back(launcher.name);
  return names;
}

LauncherSearch find_launcher(const std::string& chosen, const Environment& environment) {
  LauncherSearch nothing;
  for (const Launcher& launcher : launchers()) {
    if (chosen != "auto" && chosen != launcher.name) continue;
    LauncherSearch search = find_by_row(launcher, environment);
    if (search.place) return search;
    if (chosen == launcher.name)
      refuse("the launcher is said to be ", chosen, ", but ",
             search.remark.empty()
                 ? "there is no " + alternatives(launcher.rank) + " with " + alternatives(launcher.size) +
                       (launcher.signs.empty() ? "" : " and " + alternatives(launcher.signs)) + " in the environment"
                 : search.remark);
    if (nothing.remark.empty()) nothing = std::move(search);
  }
  if (nothing.remark.empty()) nothing.remark = remark_on_pbs(environment);
  return nothing;
}

std::string meeting_folder(const Environment& environment) {
  if (const auto folder = environment("TUTTI_MEET_DIR")) {
    if (folder->starts_with('/')) return *folder;
    refuse("TUTTI_MEET_DIR=\"", printable(*folder, 200),
           "\" must be the whole path, from / on, of a folder that all hosts see");
  }
  const auto home = environment("HOME");
  if (home && !home->empty()) return *home + "/.config/tutti/meet";
  refuse(
      "the ranks have nowhere to meet: neither HOME nor TUTTI_MEET_DIR is set. Set TUTTI_MEET_DIR to a folder "
      "that all hosts see, or MASTER_ADDR and MASTER_PORT to where rank 0 is to listen");
}

/// Differs where the jobs' names do.
std::string meeting_name(const std::string& job) {
  constexpr std::size_t kLongestName = 100;
  constexpr std::string_view kKept = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@+";
  std::string name = job.substr(0, kLongestName);
  std::ranges::replace_if(
      name, [&](char c) { return kKept.find(c) == kKept.npos; }, '_');
  if (name != job || name.empty() || name.front() == '.') name = "job-" + name + "-" + hex(identity_hash(job));
  return name + ".meet";
}

std::string meeting_path(const std::string& job, const Environment& environment) {
  return meeting_folder(environment) + "/" + meeting_name(job);
}

}  // namespace tutti::comm
