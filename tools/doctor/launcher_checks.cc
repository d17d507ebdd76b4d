#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/doctor/checks.h>

#include <array>
#include <iterator>

namespace tutti::doctor {
namespace {

// One variable that each launcher sets for a process it starts.
struct Sign {
  const char* variable;
  const char* launcher;
};
constexpr std::array<Sign, 8> kSigns{{{"TORCHELASTIC_RUN_ID", "torchrun or tutti run"},
                                      {"SLURM_STEP_ID", "srun"},
                                      {"SLURM_JOB_ID", "a Slurm job"},
                                      {"OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"},
                                      {"MPI_LOCALRANKID", "MPICH's or Intel's mpiexec"},
                                      {"PMI_RANK", "a launcher with PMI"},
                                      {"PALS_RANKID", "Cray's aprun or PALS"},
                                      {"PBS_JOBID", "a PBS job"}}};

Finding list_signs(const comm::Environment& environment) {
  std::string value;
  for (const Sign& sign : kSigns)
    if (environment(sign.variable))
      value += (value.empty() ? "" : ", ") + std::string(sign.launcher) + " (" + sign.variable + ")";
  return {"launcher", value.empty() ? "no variables of one" : value};
}

Finding check_place(const comm::Environment& environment) {
  try {
    const comm::World world = comm::World::detect({}, environment);
    return {"place in the job", "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) +
                                    ", from " + world.detected_from};
  } catch (const comm::Error& error) {
    return {"place in the job", error.what(), Verdict::Fail,
            "set what is missing, or unset what another launcher has left (env | grep -E 'RANK|WORLD|MASTER')"};
  }
}

Finding check_secret(const comm::Environment& environment) {
  if (environment("TUTTI_JOB_SECRET")) return {"job secret", "from TUTTI_JOB_SECRET"};
  const auto home = environment("HOME");
  const std::string path = home.value_or("") + "/.config/tutti/job_secret";
  struct stat info {};
  if (!home || ::stat(path.c_str(), &info) != 0) return {"job secret", "launchers make one for each job"};
  if ((info.st_mode & 077) == 0) return {"job secret", "from " + path + " where the launcher brings none"};
  return {"job secret", path + comm::format(" can be read by others (mode %04o)", info.st_mode & 07777U), Verdict::Fail,
          "chmod 600 " + path};
}

}  // namespace

Findings check_launcher(const comm::Environment& environment) {
  return {list_signs(environment), check_place(environment), check_secret(environment)};
}

Findings check_host() {
  const comm::Environment environment = comm::process_environment();
  const std::string own_address = comm::default_route_address();
  Findings all;
  for (Findings part : {check_names(comm::host_name(), environment, look_up),
                        check_interfaces(list_interfaces(), own_address), check_ports(own_address, environment),
                        check_limits(), check_cores(count_cores()), check_launcher(environment), check_gpu()})
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  return all;
}

}  // namespace tutti::doctor
