#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tensor/device.h>
#include <tutti/tensor/products.h>
#include <tutti/tools/doctor/checks.h>
#include <tutti/tools/run/host.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tutti::doctor {
namespace {

constexpr rlim_t kFewDescriptors = 256, kManyDescriptors = 4096;
constexpr rlim_t kFewProcesses = 512;
constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
constexpr double kSmallSharedMemory = 256 * kMiB;
constexpr double kLittleMemory = kGiB;

std::string bytes(double count) {
  return count >= kGiB ? comm::format("%.1f GiB", count / kGiB) : comm::format("%.0f MiB", count / kMiB);
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

Finding check_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string value = limit_text(limit.rlim_cur) + ", may be raised to " + limit_text(limit.rlim_max);
  const std::string fix = "raise the hard limit (LimitNOFILE= of the service, 'nofile' in /etc/security/limits.conf)";
  if (limit.rlim_max < kFewDescriptors) return {"open files", value, Verdict::Fail, fix};
  if (limit.rlim_max < kManyDescriptors) return {"open files", value, Verdict::Warn, "for hundreds of ranks " + fix};
  return {"open files", value};
}

Finding check_processes() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NPROC, &limit);
  const bool few = limit.rlim_cur < kFewProcesses && ::geteuid() != 0;
  return warned_if(few, "processes", limit_text(limit.rlim_cur),
                   "each rank needs some threads, which count: ulimit -u 4096");
}

Finding check_shared_memory(const System& system) {
  const std::string folder = system.root + "/dev/shm";
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0 || ::access(folder.c_str(), W_OK) != 0)
    return {"/dev/shm", "cannot be written to", Verdict::Fail,
            "mount -t tmpfs tmpfs /dev/shm; until then TUTTI_TRANSPORT=tcp does without"};
  const double total = static_cast<double>(info.f_blocks) * static_cast<double>(info.f_frsize);
  const double left = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  const std::string value = bytes(left) + " of " + bytes(total) + " are free";
  return warned_if(left < kSmallSharedMemory, "/dev/shm", value,
                   total < kSmallSharedMemory ? "give the container more (docker run --shm-size=1g)"
                                              : "remove what dead programs have left in /dev/shm");
}

double number_in(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

Finding check_memory(const System& system) {
  double total = 0, available = 0;
  std::istringstream lines(system.read("/proc/meminfo"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MemTotal:")) total = 1024 * number_in(line.substr(9));
    if (line.starts_with("MemAvailable:")) available = 1024 * number_in(line.substr(13));
  }
  const auto limit = static_cast<double>(tools::Cgroups(system.root + "/").memory_limit().value_or(0));
  const bool limited = limit > 0 && limit < total;
  std::string value = bytes(available) + " of " + bytes(total) + " are free";
  if (limited) value += "; this cgroup may use " + bytes(limit);
  return warned_if(
      available < kLittleMemory || (limited && limit < kLittleMemory), "memory", value,
      limited ? "ask the scheduler or the container for more (--mem, --memory): ranks over the limit are killed"
              : "end other programs: ranks that find no memory are killed");
}

std::string rounded(double value) { return comm::format("%.1f", value); }

/// "NVIDIA H100" from the driver's information file.
std::string model_of(const std::string& information) {
  std::istringstream lines(information);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  return "unknown model";
}

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

std::string System::read(const std::string& path) const {
  std::ifstream file(root + path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) return {};
  std::string result = text.str();
  while (!result.empty() && (result.back() == '\n' || result.back() == ' ')) result.pop_back();
  return result;
}

Findings check_limits(const System& system) {
  return {check_descriptors(), check_processes(), check_shared_memory(system), check_memory(system)};
}

Cores count_cores() {
  Cores cores;
  cores.online = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  const std::size_t usable = tools::affinity().size();
  cores.usable = usable > 0 ? static_cast<int>(usable) : cores.online;
  return cores;
}

Findings check_cores(const Cores& cores, const System& system) {
  std::string value = std::to_string(cores.usable) + " of " + std::to_string(cores.online) + " may be used";
  const double allowed = tools::Cgroups(system.root + "/").cpu_quota().value_or(cores.usable);
  const bool limited = allowed < cores.usable - 0.01;
  if (limited) value += ", but the cgroup gives the time of " + rounded(allowed);
  double load = 0;
  std::istringstream(system.read("/proc/loadavg")) >> load;
  return {warned_if(limited, "cores", value,
                    "start no more than " + std::to_string(std::max(1, static_cast<int>(allowed))) +
                        " ranks, or threads in all (OMP_NUM_THREADS), or ask for more cores (--cpus)"),
          warned_if(load > cores.usable + 0.5, "load",
                    rounded(load) + " programs want to run on " + std::to_string(cores.usable) + " cores",
                    "measure nothing now: others compute here (top)")};
}

Findings check_gpu(const System& system) {
  std::string models;
  int count = 0;
  std::error_code failed;
  const std::string folder = "/proc/driver/nvidia/gpus";
  for (std::filesystem::directory_iterator entry(system.root + folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string card = entry->path().filename().string();
    models += (count++ == 0 ? "" : ", ") + model_of(system.read(folder + "/" + card + "/information"));
  }
  const int usable = tensor::cuda_available() ? tensor::cuda_device_count() : 0;
  if (count == 0 && usable == 0) return {{"GPU", "none; ranks compute on the processor"}};
  const std::string value =
      std::to_string(count) + " (" + models + "), " + std::to_string(usable) + " usable from here";
  if (usable == 0)
    return {{"GPU", value, Verdict::Warn,
             tensor::cuda_status() + "; see that the build has CUDA and that CUDA_VISIBLE_DEVICES hides none"}};
  return {{"GPU", value}, {"GPU products", tensor::describe_products()}};
}

Findings check_launcher(const comm::Environment& environment) {
  return {list_signs(environment), check_place(environment), check_secret(environment)};
}

Findings check_host() {
  const comm::Environment environment = comm::process_environment();
  const std::string own_address = comm::default_route_address();
  Findings all;
  for (Findings part :
       {check_names(comm::host_name(), environment, look_up),
        check_interfaces(comm::interface_addresses(), own_address), check_ports(own_address, environment), check_ucx(),
        check_limits(), check_cores(count_cores()), check_launcher(environment), check_gpu()})
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  return all;
}

}  // namespace tutti::doctor
