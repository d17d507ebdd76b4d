// Copies between a caller's memory and memory that ranks share. Pure functions; the two places do not overlap.
#pragma once

#include <tutti/comm/base/short_copy.h>

#include <cstddef>

namespace tutti::comm {

/// memcpy that may be given no bytes, or the same place twice.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) copy_short(to, from, bytes);
}

/// memcpy by non-temporal stores, to memory that will not be read soon, or by a CPU that is further away than memory.
/// An ordinary store first fetches the line that it overwrites, and evicts another one: for results larger than the
/// caches a third of the traffic. Ordered with later stores.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

/// stream_copy or copy_bytes.
inline void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (streams && to != from) return stream_copy(to, from, bytes);
  copy_bytes(to, from, bytes);
}

}  // namespace tutti::comm
