#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <tutti/comm/base/far_fence.h>
#include <unistd.h>

namespace tutti::comm {

bool join_far_fences() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void far_fence() noexcept { ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0); }

}  // namespace tutti::comm
