#include <tutti/comm/base/copy.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace tutti::comm {

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__AVX__)
  constexpr std::size_t kChunk = 64;  // a cache line
  const std::size_t head = (kChunk - reinterpret_cast<std::uintptr_t>(to) % kChunk) % kChunk;
  if (bytes >= head + kChunk) {
    std::memcpy(to, from, head);
    for (at = head; at + kChunk <= bytes; at += kChunk) {
      const auto* source = reinterpret_cast<const __m256i*>(from + at);
      auto* target = reinterpret_cast<__m256i*>(to + at);
      const __m256i first = _mm256_loadu_si256(source);
      const __m256i second = _mm256_loadu_si256(source + 1);
      _mm256_stream_si256(target, first);
      _mm256_stream_si256(target + 1, second);
    }
    _mm_sfence();  // orders non-temporal stores with later ones
  }
#endif
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace tutti::comm
