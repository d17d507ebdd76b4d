#include <sys/resource.h>
#include <sys/statvfs.h>
#include <tutti/comm/base/format.h>
#include <tutti/tensor/device.h>
#include <tutti/tensor/products.h>
#include <tutti/tools/doctor/checks.h>
#include <tutti/tools/run/host.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  return {"processes", limit_text(limit.rlim_cur), few ? Verdict::Warn : Verdict::Ok,
          few ? "each rank needs some threads, which count: ulimit -u 4096" : ""};
}

Finding check_core_files(const System& system) {
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  if (limit.rlim_cur == 0) return {"core files", "none are written; 'ulimit -c unlimited' switches them on"};
  return {"core files",
          "up to " + limit_text(limit.rlim_cur) + " bytes, to " + system.read("/proc/sys/kernel/core_pattern")};
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
  if (left < kSmallSharedMemory)
    return {"/dev/shm", value, Verdict::Warn,
            total < kSmallSharedMemory ? "give the container more (docker run --shm-size=1g)"
                                       : "remove what dead programs have left in /dev/shm"};
  return {"/dev/shm", value};
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
  if (available < kLittleMemory || (limited && limit < kLittleMemory))
    return {"memory", value, Verdict::Warn,
            limited ? "ask the scheduler or the container for more (--mem, --memory): ranks over the limit are killed"
                    : "end other programs: ranks that find no memory are killed"};
  return {"memory", value};
}

std::string rounded(double value) { return comm::format("%.1f", value); }

/// "NVIDIA H100" from the driver's information file.
std::string model_of(const std::string& information) {
  std::istringstream lines(information);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  return "unknown model";
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
  return {check_descriptors(), check_processes(), check_core_files(system), check_shared_memory(system),
          check_memory(system)};
}

Cores count_cores() {
  Cores cores;
  cores.online = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  const std::size_t usable = tools::affinity().size();
  cores.usable = usable > 0 ? static_cast<int>(usable) : cores.online;
  return cores;
}

Findings check_cores(const Cores& cores, const System& system) {
  Findings findings;
  std::string value = std::to_string(cores.usable) + " of " + std::to_string(cores.online) + " may be used";
  const std::optional<double> allowed = tools::Cgroups(system.root + "/").cpu_quota();
  if (allowed && *allowed < cores.usable - 0.01) {
    value += ", but the cgroup gives the time of " + rounded(*allowed);
    findings.push_back({"cores", value, Verdict::Warn,
                        "start no more than " + std::to_string(std::max(1, static_cast<int>(*allowed))) +
                            " ranks, or threads in all (OMP_NUM_THREADS), or ask for more cores (--cpus)"});
  } else {
    findings.push_back({"cores", value});
  }
  double load = 0;
  std::istringstream(system.read("/proc/loadavg")) >> load;
  const bool busy = load > cores.usable + 0.5;
  findings.push_back({"load", rounded(load) + " programs want to run on " + std::to_string(cores.usable) + " cores",
                      busy ? Verdict::Warn : Verdict::Ok,
                      busy ? "measure nothing now: others compute here (top)" : ""});
  return findings;
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

}  // namespace tutti::doctor
