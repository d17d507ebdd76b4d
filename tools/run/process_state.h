// What /proc tells about another process.
#pragma once

#include <sys/types.h>

namespace tutti::tools {

/// Stopped by a signal or a debugger. False for a process that is not there.
bool is_stopped(pid_t pid);

}  // namespace tutti::tools
