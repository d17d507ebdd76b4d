// Copies between a caller's memory and that which ranks share. Pure functions; the two places do not overlap.
#pragma once

#include <tutti/comm/base/short_copy.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace tutti::comm {

/// memcpy that may be given nothing at all, or what is in its place already.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) copy_short(to, from, bytes);
}

/// memcpy past the caches, to memory that will not be read soon. An ordinary store first fetches the line that it is
/// about to overwrite, and drives another one out of the cache: for results larger than the caches a third of the
/// traffic.
inline void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__AVX__)
  constexpr std::size_t kChunk = 64;  // a line
  const std::size_t head = (kChunk - reinterpret_cast<std::uintptr_t>(to) % kChunk) % kChunk;
  if (bytes < head + kChunk) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kChunk <= bytes; at += kChunk) {
    const auto* source = reinterpret_cast<const __m256i*>(from + at);
    auto* target = reinterpret_cast<__m256i*>(to + at);
    const __m256i first = _mm256_loadu_si256(source);
    const __m256i second = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, first);
    _mm256_stream_si256(target + 1, second);
  }
  _mm_sfence();  // streamed stores are ordered with later ones only by this
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
#else
  if (bytes > 0) std::memcpy(to, from, bytes);
#endif
}

/// The one or the other.
inline void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (streams && to != from) return stream_copy(to, from, bytes);
  copy_bytes(to, from, bytes);
}

}  // namespace tutti::comm
