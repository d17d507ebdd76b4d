// Copies between a caller's memory and memory that ranks share. Pure functions; the two places do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::comm {

inline constexpr std::size_t kShortCopyBytes = 24;

/// The two places do not overlap. Up to kShortCopyBytes are two moves of a fixed width, which may overlap each other.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto both_ends = [&]<typename Word>(Word) {
    Word first, last;
    std::memcpy(&first, from, sizeof first);
    std::memcpy(&last, from + bytes - sizeof last, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + bytes - sizeof last, &last, sizeof last);
  };
  struct Wide {
    std::uint64_t words[2];
  };
  if (bytes > kShortCopyBytes) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= sizeof(Wide)) {
    both_ends(Wide());
  } else if (bytes >= sizeof(std::uint64_t)) {
    both_ends(std::uint64_t{});
  } else if (bytes >= sizeof(std::uint32_t)) {
    both_ends(std::uint32_t{});
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

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
