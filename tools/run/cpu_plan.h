// How the CPUs of a host are divided among its ranks. Pure functions, but for those that say what they read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::tools {

/// A CPU as the kernel numbers them: with two threads a core, two of them share a core.
struct Cpu {
  int id = 0;
  int core = 0;  // the same number for all threads of a core
  int node = 0;  // of the memory
  bool operator==(const Cpu&) const = default;
};

/// Those that this process may run on. Reads its affinity mask, and the topology below `root`/sys.
std::vector<Cpu> allowed_cpus(const std::filesystem::path& root = "/");

/// Each rank's CPUs: neighbours, whole cores, of one memory node where that goes. None at all if there are more ranks
/// than CPUs: pinned ranks would then wait for each other while a CPU is free.
std::vector<std::vector<int>> divide_cpus(std::vector<Cpu> cpus, int ranks);

/// In per cent: the part of the last ten seconds in which a program of this host had to wait for a CPU (the kernel's
/// pressure stall information, `root`/proc/pressure/cpu). 0 if the kernel does not tell.
double cpu_pressure(const std::filesystem::path& root = "/");

}  // namespace tutti::tools
