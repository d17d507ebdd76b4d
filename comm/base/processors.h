// The CPUs that this process may use, and the cache they share. Thread-safety: all functions may be called by any
// thread.
#pragma once

#include <cstddef>

namespace tutti::comm {

/// By the process's CPU affinity; 0 if that cannot be read.
int allowed_processors();

/// The size of the last-level cache, as Linux reports it for the CPU of the first call; 32 MiB where it does not.
std::size_t last_cache_bytes();

/// The last-level cache of the CPUs that this process may use: the lowest number of a CPU that shares it;
/// kSeveralCaches if they have different ones, kUnknownCache where Linux does not tell.
inline constexpr int kSeveralCaches = -1;
inline constexpr int kUnknownCache = -2;
int last_cache_of_process();

}  // namespace tutti::comm
