// copy_short: memcpy of a few bytes, a number known only at run time, without a call.
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

}  // namespace tutti::comm
