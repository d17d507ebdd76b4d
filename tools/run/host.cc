#include <signal.h>
#include <sys/resource.h>
#include <tutti/comm/base/format.h>
#include <tutti/tools/run/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

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

std::string first_line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::vector<int> cpu_list(const fs::path& file) {
  return parse_ranges(first_line_of(file)).value_or(std::vector<int>{});
}

std::map<int, int> memory_nodes(const fs::path& root) {
  std::map<int, int> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    const auto node = name.starts_with("node") ? parse_number(name.substr(4)) : std::nullopt;
    if (!node) continue;
    for (const int cpu : cpu_list(entry.path() / "cpulist")) result[cpu] = *node;
  }
  return result;
}

std::string mebibytes(std::uint64_t bytes) { return comm::format("%.1f MiB", static_cast<double>(bytes) / (1 << 20)); }

bool dumps_core(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGQUIT || signal == SIGTRAP || signal == SIGSYS;
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

std::vector<int> affinity() {
  CpuMask mask{};
  std::vector<int> result;
  if (sched_getaffinity(0, sizeof(mask), mask.data()) != 0) return result;
  for (std::size_t cpu = 0; cpu < 8 * sizeof(mask); ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(mask), mask.data())) result.push_back(static_cast<int>(cpu));
  }
  return result;
}

std::vector<Cpu> allowed_cpus(const fs::path& root) {
  const std::map<int, int> nodes = memory_nodes(root);
  std::map<int, int> cores;
  std::vector<Cpu> result;
  for (const int id : affinity()) {
    if (!cores.contains(id)) {
      const fs::path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(id)) / "topology";
      for (const int sibling : cpu_list(topology / "thread_siblings_list")) cores[sibling] = id;
      cores[id] = id;
    }
    const auto node = nodes.find(id);
    result.push_back({id, cores[id], node != nodes.end() ? node->second : 0});
  }
  return result;
}

std::vector<std::vector<int>> divide_cpus(std::vector<Cpu> cpus, int ranks) {
  if (ranks < 1 || cpus.size() < static_cast<std::size_t>(ranks)) return {};
  std::sort(cpus.begin(), cpus.end(),
            [](const Cpu& a, const Cpu& b) { return std::tie(a.node, a.core, a.id) < std::tie(b.node, b.core, b.id); });
  std::vector<std::vector<int>> units;  // cores; where there are too few of them, their threads
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    if (i == 0 || cpus[i].core != cpus[i - 1].core || cpus[i].node != cpus[i - 1].node) units.emplace_back();
    units.back().push_back(cpus[i].id);
  }
  if (units.size() < static_cast<std::size_t>(ranks)) {
    units.clear();
    for (const Cpu& cpu : cpus) units.push_back({cpu.id});
  }
  std::vector<std::vector<int>> result(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    const std::size_t begin = units.size() * rank / result.size(), end = units.size() * (rank + 1) / result.size();
    for (std::size_t i = begin; i < end; ++i) result[rank].insert(result[rank].end(), units[i].begin(), units[i].end());
  }
  return result;
}

double cpu_pressure(const std::filesystem::path& root) {
  std::ifstream stream(root / "proc/pressure/cpu");  // "some avg10=1.53 avg60=..."
  std::string kind, average;
  stream >> kind >> average;
  const std::string prefix = "avg10=";
  return kind == "some" && average.starts_with(prefix) ? std::strtod(average.c_str() + prefix.size(), nullptr) : 0;
}

Evidence::Evidence(const fs::path& root) : root_(root), groups_(root), before_(groups_.out_of_memory_kills()) {}

std::string Evidence::about(const RankEnd& rank) const {
  if (!rank.by_signal) return "";
  if (rank.code == SIGKILL) return of_a_kill();
  return dumps_core(rank.code) ? of_a_core_dump(rank) : "";
}

std::string Evidence::of_a_kill() const {
  const OutOfMemoryKills now = groups_.out_of_memory_kills();
  if (!now.group.empty() && now.in_group > before_.in_group) {
    const std::uint64_t count = now.in_group - before_.in_group;
    return "  Out of memory: the kernel killed " + std::to_string(count) + (count == 1 ? " process" : " processes") +
           " of this job's control group meanwhile (" + now.group + ")" +
           (now.limit ? "; the group's limit is " + mebibytes(*now.limit) : "") +
           ". Ask for more, or use smaller batches or fewer ranks.\n";
  }
  if (!now.on_host || !before_.on_host) return "";
  if (*now.on_host > *before_.on_host) {
    return "  Probably out of memory: the kernel killed a process of this host meanwhile because memory ran out.\n";
  }
  return "  Not for lack of memory: the kernel counts no out-of-memory kill meanwhile, nor did this launcher send it. "
         "A user, a batch system or another program did.\n";
}

std::string Evidence::of_a_core_dump(const RankEnd& rank) const {
  if (!rank.core_dumped) {
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_cur == 0 ? "  It left no core dump: 'ulimit -c unlimited' before the launch allows one.\n" : "";
  }
  const std::string pattern = first_line_of(root_ / "proc/sys/kernel/core_pattern");
  if (pattern.starts_with("|")) {
    const bool systemd = pattern.find("systemd-coredump") != std::string::npos;
    return systemd ? "  It left a core dump: coredumpctl info " + std::to_string(rank.pid) + "\n"
                   : "  It left a core dump with " + pattern.substr(1, pattern.find(' ') - 1) + "\n";
  }
  return "  It left a core dump, where /proc/sys/kernel/core_pattern says: " + pattern + "\n";
}

}  // namespace tutti::tools
