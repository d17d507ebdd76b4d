#include <sys/resource.h>
#include <sys/statvfs.h>
#include <tutti/tools/doctor/host_checks.h>
#include <tutti/tools/run/cgroup.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
  char text[32];
  std::snprintf(text, sizeof text, count >= kGiB ? "%.1f GiB" : "%.0f MiB",
                count >= kGiB ? count / kGiB : count / kMiB);
  return text;
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

}  // namespace

std::string System::read(const std::string& path) const {
  std::ifstream file(root + path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) return {};
  std::string result = text.str();
  while (!result.empty() && (result.back() == '\n' || result.back() == ' ')) result.pop_back();
  return result;
}

bool System::exists(const std::string& path) const { return ::access((root + path).c_str(), F_OK) == 0; }

Findings check_limits(const System& system) {
  return {check_descriptors(), check_processes(), check_core_files(system), check_shared_memory(system),
          check_memory(system)};
}

}  // namespace tutti::doctor
