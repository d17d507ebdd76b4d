#include <sched.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/base/text.h>

#include <algorithm>
#include <fstream>

namespace tutti::comm {
namespace {

/// The number that `file` of the CPU's last-level cache begins with; `unknown` where Linux does not tell.
int last_cache(int cpu, const char* file, int unknown) {
  int number = unknown;
  for (int index = 0; index < 8; ++index) {  // the first levels come first
    std::ifstream input(joined("/sys/devices/system/cpu/cpu", cpu, "/cache/index", index, "/", file));
    if (!(input >> number)) break;
  }
  return number;
}

// sysconf(_SC_LEVEL3_CACHE_SIZE) gives the sum over all caches of that level instead.
std::size_t read_last_cache() {
  constexpr int kUnknownKib = 32 * 1024;
  const int kib = last_cache(std::max(0, ::sched_getcpu()), "size", 0);  // "32768K"
  return static_cast<std::size_t>(kib > 0 ? kib : kUnknownKib) * 1024;
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
    const int its = last_cache(cpu, "shared_cpu_list", kUnknownCache);  // "0-7,16-23"
    if (its == kUnknownCache) return kUnknownCache;
    if (cache != kUnknownCache && cache != its) return kSeveralCaches;
    cache = its;
  }
  return cache;
}

}  // namespace tutti::comm
