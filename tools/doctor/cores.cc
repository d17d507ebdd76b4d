#include <sched.h>
#include <tutti/tools/doctor/host_checks.h>
#include <tutti/tools/run/cgroup.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace tutti::doctor {
namespace {

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

}  // namespace tutti::doctor
