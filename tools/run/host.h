// What this host says: what the kernel's control groups allow this process (versions 1 and 2, also mixed, and
// containers that see another part of the tree than their own path says), which CPUs each rank gets, and how a rank may
// have ended. Nothing here throws: what cannot be read is unknown. Pure functions, but for those that say what they
// read.
#pragma once

#include <sched.h>
#include <tutti/tools/run/report.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// Processes that were killed because memory ran out, counted since the machine or the group was made.
struct OutOfMemoryKills {
  std::string group;                   // the file that counts, "" if none does
  std::optional<std::uint64_t> limit;  // of the group, in bytes
  std::uint64_t in_group = 0;
  std::optional<std::uint64_t> on_host;
};

class Cgroups {
 public:
  /// Of this process. `root` is where proc and sys are: "/", or a test's folder.
  explicit Cgroups(std::filesystem::path root = "/");

  /// The tightest limit of this group and those around it, in CPUs; nothing without one.
  std::optional<double> cpu_quota() const;
  /// Likewise, in bytes.
  std::optional<std::uint64_t> memory_limit() const;
  OutOfMemoryKills out_of_memory_kills() const;

 private:
  bool in_version_1(const std::string& controller) const;
  std::filesystem::path folder(const std::string& controller) const;
  std::vector<std::filesystem::path> groups(const std::string& controller) const;

  std::filesystem::path root_;
  std::string unified_path_;            // of version 2; "" if there is none
  std::string memory_path_, cpu_path_;  // of version 1
};

/// A CPU as the kernel numbers them: with two threads a core, two of them share a core.
struct Cpu {
  int id = 0;
  int core = 0;  // the same number for all threads of a core
  int node = 0;  // of the memory
  bool operator==(const Cpu&) const = default;
};

/// For the kernel: a bit for each of 8192 CPUs.
using CpuMask = std::array<cpu_set_t, 8>;

/// The CPUs of this process's affinity mask; none where it cannot be told.
std::vector<int> affinity();

/// The same with their places. Reads the topology below `root`/sys.
std::vector<Cpu> allowed_cpus(const std::filesystem::path& root = "/");

/// Each rank's CPUs: neighbours, whole cores, of one memory node where that goes. None at all if there are more ranks
/// than CPUs: pinned ranks would then wait for each other while a CPU is free.
std::vector<std::vector<int>> divide_cpus(std::vector<Cpu> cpus, int ranks);

/// In per cent: the part of the last ten seconds in which a program of this host had to wait for a CPU (the kernel's
/// pressure stall information, `root`/proc/pressure/cpu). 0 if the kernel does not tell.
double cpu_pressure(const std::filesystem::path& root = "/");

/// What the host knows about the end of a rank that was killed by a signal: did memory run out, is there a core dump?
class Evidence {
 public:
  /// To be made before the ranks start: counts from here. `root` as in Cgroups.
  explicit Evidence(const std::filesystem::path& root = "/");

  /// Whole indented lines for the summary, to be asked when the rank has ended; "" if nothing is known.
  std::string about(const RankEnd& rank) const;

 private:
  std::string of_a_kill() const;
  std::string of_a_core_dump(const RankEnd& rank) const;

  const std::filesystem::path root_;
  const Cgroups groups_;
  const OutOfMemoryKills before_;
};

}  // namespace tutti::tools
