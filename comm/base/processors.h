// The processors this process may use, and the cache they share. Thread-safety: all functions may be called by any
// thread.
#pragma once

#include <cstddef>

namespace tutti::comm {

/// By the affinity that it was started with or has set; 0 if that cannot be told.
int allowed_processors();

/// The size of the last cache before memory, as Linux tells it of the processor that asks first; 32 MiB where it does
/// not.
std::size_t last_cache_bytes();

}  // namespace tutti::comm
