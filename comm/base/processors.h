// The CPUs that this process may use, and the cache they share. Thread-safety: all functions may be called by any
// thread.
#pragma once

#include <cstddef>

namespace tutti::comm {

/// By the affinity that it was started with or has set; 0 if that cannot be told.
int allowed_processors();

/// The size of the last cache before memory, as Linux tells it of the processor that asks first; 32 MiB where it does
/// not.
std::size_t last_cache_bytes();

/// Which last cache the CPUs have that this process may use: the lowest number of a CPU that shares it; kSeveralCaches
/// if they have different ones, kUnknownCache where Linux does not tell. TUTTI_LAST_CACHE replaces it with a number.
/// Throws InvalidArgument if that is none.
inline constexpr int kSeveralCaches = -1;
inline constexpr int kUnknownCache = -2;
int last_cache_of_process();

}  // namespace tutti::comm
