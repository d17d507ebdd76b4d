#include <sched.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/base/text.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tutti::comm {
namespace {

std::string caches_of(int cpu) { return joined("/sys/devices/system/cpu/cpu", cpu, "/cache/"); }

// sysconf(_SC_LEVEL3_CACHE_SIZE) gives the sum over all caches of that level instead.
std::size_t read_last_cache() {
  constexpr std::size_t kUnknown = 32 * 1024 * 1024;
  const std::string caches = caches_of(std::max(0, ::sched_getcpu()));
  std::size_t kib = 0;
  for (int index = 0; index < 8; ++index) {                                  // the first levels come first
    std::ifstream size(caches + "index" + std::to_string(index) + "/size");  // "32768K"
    if (!(size >> kib)) break;
  }
  return kib > 0 ? kib * 1024 : kUnknown;
}

/// The lowest CPU that shares the last-level cache of `cpu`.
int last_cache_of(int cpu) {
  int lowest = kUnknownCache;
  for (int index = 0; index < 8; ++index) {
    std::ifstream shared(caches_of(cpu) + "index" + std::to_string(index) + "/shared_cpu_list");  // "0-7,16-23"
    if (!(shared >> lowest)) break;
  }
  return lowest;
}

}  // namespace

int allowed_processors() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

std::size_t last_cache_bytes() {
  static const std::size_t bytes = read_last_cache();
  return bytes;
}

int last_cache_of_process() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return kUnknownCache;
  int cache = kUnknownCache;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) continue;
    const int its = last_cache_of(cpu);
    if (its == kUnknownCache) return kUnknownCache;
    if (cache != kUnknownCache && cache != its) return kSeveralCaches;
    cache = its;
  }
  return cache;
}

}  // namespace tutti::comm
