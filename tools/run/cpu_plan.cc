#include <sched.h>
#include <tutti/tools/run/cpu_plan.h>
#include <tutti/tools/run/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <tuple>

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};

std::vector<int> affinity() {
  constexpr int kMostCpus = 8192;
  const std::unique_ptr<cpu_set_t, FreeMask> mask(CPU_ALLOC(kMostCpus));
  const std::size_t size = CPU_ALLOC_SIZE(kMostCpus);
  CPU_ZERO_S(size, mask.get());
  std::vector<int> result;
  if (sched_getaffinity(0, size, mask.get()) != 0) return result;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, mask.get())) result.push_back(cpu);
  }
  return result;
}

std::vector<int> cpu_list(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return parse_ranges(line).value_or(std::vector<int>{});
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

}  // namespace

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

}  // namespace tutti::tools
