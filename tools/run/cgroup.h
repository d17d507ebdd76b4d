// What the kernel's control groups say about this process: how many CPUs' time and how much memory it may use, and
// whether memory ran out.
//
// Understands versions 1 and 2, also mixed, and containers that see another part of the tree than their own path says.
// Nothing here throws: what cannot be read is unknown.
#pragma once

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

}  // namespace tutti::tools
