// The processors this process may use, and the cache they share. Thread-safety: all functions may be called by any
// thread.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::comm {

/// By the affinity that it was started with or has set; 0 if that cannot be told.
int allowed_processors();
/// Their numbers, ascending; none if that cannot be told.
std::vector<int> allowed_processor_numbers();

/// Has the system go on running the calling thread there, which for a moment may run nowhere else. Afterwards it may
/// run where it could before, and may be moved as before. False if it may not run there, or the system refuses: then
/// nothing has changed, unless it is the way back that it refuses, because all that was allowed has been taken away.
bool move_to_processor(int number);

/// The size of the last cache before memory, as Linux tells it of the processor that asks first; 32 MiB where it does
/// not.
std::size_t last_cache_bytes();

}  // namespace tutti::comm
