// What the host knows about the end of a rank that was killed by a signal: did memory run out, is there a core dump?
#pragma once

#include <tutti/tools/run/cgroup.h>
#include <tutti/tools/run/report.h>

#include <filesystem>
#include <string>

namespace tutti::tools {

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
