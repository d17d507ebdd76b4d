#include <sched.h>
#include <tutti/tools/doctor/host_checks.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tutti::doctor {
namespace {

/// Cores' worth of time that the cgroup allows; 0 for no limit. Version 2, then 1.
double cgroup_cores(const System& system) {
  std::string own;
  std::istringstream lines(system.read("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::")) own = line.substr(3);
  double least = 0;
  for (std::string folder = own;; folder.resize(folder.rfind('/'))) {
    double quota = 0, period = 0;
    std::istringstream(system.read("/sys/fs/cgroup" + folder + "/cpu.max")) >> quota >> period;
    if (quota > 0 && period > 0 && (least == 0 || quota / period < least)) least = quota / period;
    if (folder.rfind('/') == std::string::npos) break;
  }
  if (least > 0) return least;
  const double quota = std::atof(system.read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str());
  const double period = std::atof(system.read("/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str());
  return quota > 0 && period > 0 ? quota / period : 0;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

}  // namespace

Cores count_cores() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  Cores cores;
  cores.online = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  cores.usable = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : cores.online;
  return cores;
}

Findings check_cores(const Cores& cores, const System& system) {
  Findings findings;
  std::string value = std::to_string(cores.usable) + " of " + std::to_string(cores.online) + " may be used";
  const double allowed = cgroup_cores(system);
  if (allowed > 0 && allowed < cores.usable - 0.01) {
    value += ", but the cgroup gives the time of " + rounded(allowed);
    findings.push_back({"cores", value, Verdict::Warn,
                        "start no more than " + std::to_string(std::max(1, static_cast<int>(allowed))) +
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

}  // namespace tutti::doctor
