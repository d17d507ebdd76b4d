#include <sched.h>
#include <tutti/comm/base/processors.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tutti::comm {
namespace {

// sysconf(_SC_LEVEL3_CACHE_SIZE) says instead what all caches of that level make together.
std::size_t read_last_cache() {
  constexpr std::size_t kUnknown = 32 * 1024 * 1024;
  const std::string caches = "/sys/devices/system/cpu/cpu" + std::to_string(std::max(0, ::sched_getcpu())) + "/cache/";
  std::size_t kib = 0;
  for (int index = 0; index < 8; ++index) {                                  // the first levels come first
    std::ifstream size(caches + "index" + std::to_string(index) + "/size");  // "32768K"
    if (!(size >> kib)) break;
  }
  return kib > 0 ? kib * 1024 : kUnknown;
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

}  // namespace tutti::comm
