#include <sched.h>
#include <tutti/comm/base/processors.h>

namespace tutti::comm {

int allowed_processors() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

}  // namespace tutti::comm
