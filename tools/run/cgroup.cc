#include <tutti/tools/run/cgroup.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

// The number after `key` in a file of "key number" lines.
std::optional<std::uint64_t> counter(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  for (std::string name; stream >> name >> value;) {
    if (name == key) return value;
  }
  return std::nullopt;
}

// A file of one number; nothing for "max" and what else is no number.
std::optional<std::uint64_t> number(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  return stream >> value ? std::optional(value) : std::nullopt;
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Version 2: "quota period" or "max period". Version 1: two files, -1 for no limit.
std::optional<double> quota_of(const fs::path& folder) {
  double quota = 0, period = 0;
  if (std::ifstream stream(folder / "cpu.max"); stream >> quota >> period && period > 0) return quota / period;
  std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
  std::ifstream(folder / "cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// Of version 2, or of version 1, which says "no limit" by a number that no machine has.
std::optional<std::uint64_t> memory_limit_of(const fs::path& folder) {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;
  std::optional<std::uint64_t> limit = number(folder / "memory.max");
  if (!limit) limit = number(folder / "memory.limit_in_bytes");
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

template <typename T>
void keep_tightest(std::optional<T>& tightest, std::optional<T> limit) {
  if (limit && (!tightest || *limit < *tightest)) tightest = limit;
}

}  // namespace

Cgroups::Cgroups(fs::path root) : root_(std::move(root)) {
  std::ifstream file(root_ / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:memory:/path", and of version 2 "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) unified_path_ = path;
    if (has_word(controllers, "memory")) memory_path_ = path;
    if (has_word(controllers, "cpu")) cpu_path_ = path;
  }
}

// Where the kernel names no group at all, by the mount that is there.
bool Cgroups::in_version_1(const std::string& controller) const {
  const std::string& path = controller == "memory" ? memory_path_ : cpu_path_;
  std::error_code error;
  return !path.empty() || (unified_path_.empty() && fs::is_directory(root_ / "sys/fs/cgroup" / controller, error));
}

// A container may be shown paths of its host, which do not exist below its own mount: that is then the group itself.
fs::path Cgroups::folder(const std::string& controller) const {
  const std::string& path = controller == "memory" ? memory_path_ : cpu_path_;
  const fs::path mount = in_version_1(controller) ? root_ / "sys/fs/cgroup" / controller : root_ / "sys/fs/cgroup";
  const fs::path group = mount / fs::path(path.empty() ? unified_path_ : path).relative_path();
  std::error_code error;
  return fs::is_directory(group, error) ? group : mount;
}

// The group and those around it.
std::vector<fs::path> Cgroups::groups(const std::string& controller) const {
  std::vector<fs::path> result;
  const fs::path top = root_ / "sys/fs/cgroup";
  for (fs::path group = folder(controller); group.string().size() > top.string().size(); group = group.parent_path())
    result.push_back(group);
  result.push_back(top);
  return result;
}

std::optional<double> Cgroups::cpu_quota() const {
  std::optional<double> tightest;
  for (const fs::path& group : groups("cpu")) keep_tightest(tightest, quota_of(group));
  return tightest;
}

std::optional<std::uint64_t> Cgroups::memory_limit() const {
  std::optional<std::uint64_t> tightest;
  for (const fs::path& group : groups("memory")) keep_tightest(tightest, memory_limit_of(group));
  return tightest;
}

OutOfMemoryKills Cgroups::out_of_memory_kills() const {
  OutOfMemoryKills result;
  result.on_host = counter(root_ / "proc/vmstat", "oom_kill");
  const fs::path group = folder("memory");
  const fs::path file = group / (in_version_1("memory") ? "memory.oom_control" : "memory.events");
  const auto kills = counter(file, "oom_kill");
  if (!kills) return result;
  result.group = file.string();
  result.in_group = *kills;
  result.limit = memory_limit_of(group);
  return result;
}

}  // namespace tutti::tools
