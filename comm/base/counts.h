// The per-rank counts of a v-form as one number, so that they fit where other operations have their count.
//
// Pure functions. The number is what ranks compare before a byte is used; two lists that differ get equal numbers once
// in 2^24 if their totals are equal, never if they are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::comm {

/// No buffer has as many elements: no sum of bytes, even over all ranks, leaves 64 bits below it.
inline constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 48;

/// Largest total of a v-form, exclusive.
inline constexpr std::uint64_t kMaxTotalCount = std::uint64_t{1} << 40;

/// Sum in the lower 40 bits, checksum (FNV-1a over the counts, folded) in the upper 24. The sum must be below
/// kMaxTotalCount.
inline std::uint64_t summary_of(std::span<const std::size_t> counts) {
  std::uint64_t total = 0, hash = 0xCBF29CE484222325u;
  for (const std::size_t count : counts) {
    total += count;
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ ((std::uint64_t{count} >> (8 * byte)) & 0xFF)) * 0x100000001B3u;
  }
  return ((hash ^ (hash >> 24)) << 40) | total;
}

inline std::uint64_t total_of(std::uint64_t summary) { return summary & (kMaxTotalCount - 1); }
inline std::uint64_t checksum_of(std::uint64_t summary) { return summary >> 40; }

}  // namespace tutti::comm
