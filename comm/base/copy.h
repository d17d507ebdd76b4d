// Copies between a caller's memory and that which ranks share. Pure functions; the two places do not overlap.
#pragma once

#include <tutti/comm/base/short_copy.h>

#include <cstddef>

namespace tutti::comm {

/// memcpy that may be given nothing at all, or what is in its place already.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) copy_short(to, from, bytes);
}

/// memcpy past the caches, to memory that will not be read soon, or by a processor that is further away than memory. An
/// ordinary store first fetches the line that it is about to overwrite, and drives another one out of the cache: for
/// results larger than the caches a third of the traffic. Ordered with later stores.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

/// The one or the other.
inline void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (streams && to != from) return stream_copy(to, from, bytes);
  copy_bytes(to, from, bytes);
}

}  // namespace tutti::comm
