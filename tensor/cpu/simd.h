// The widest vector register of the machine we are compiled for, for T = float and double. Private to tensor/cpu.
//
// Written with the compilers' vector extension, so one source serves SSE, AVX2, AVX-512 and others; only the two
// operations that it cannot express well (masked access, horizontal sums) have an AVX-512 version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tutti::tensor::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

template <typename T>
struct Simd {
  typedef T Vec __attribute__((vector_size(kVectorBytes)));
  static constexpr std::int64_t kLanes = kVectorBytes / static_cast<int>(sizeof(T));

  static Vec load(const T* from) {
    Vec v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  static void store(T* to, Vec v) { std::memcpy(to, &v, sizeof(v)); }
  /// Past the caches, where the processor can; `to` must be aligned to the vector. Other threads see it after
  /// finish_streams() only.
  static void stream(T* to, Vec v) { store(to, v); }
  static void finish_streams() {}

  /// Keeps v in a register. The compiler may otherwise let each instruction that uses v load it again, and the
  /// processor has more multiply-adds per cycle than loads.
  static void hold([[maybe_unused]] Vec& v) {
#if defined(__x86_64__)
    asm("" : "+v"(v));
#endif
  }

  /// The first `count` (0 to kLanes) elements, the rest 0. Touches no memory beyond them.
  static Vec load_partial(const T* from, std::int64_t count) {
    Vec v{};
    for (std::int64_t i = 0; i < count; ++i) v[i] = from[i];
    return v;
  }
  static void store_partial(T* to, Vec v, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = v[i];
  }

  /// sums[i] = the sum of v[i]'s lanes, by halving: the order of additions is the same for all four.
  static void sum_lanes(const Vec (&v)[4], T (&sums)[4]) {
    for (int i = 0; i < 4; ++i) {
      T lanes[kLanes];
      store(lanes, v[i]);
      for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (std::int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
      }
      sums[i] = lanes[0];
    }
  }
};

#if defined(__AVX512F__)

template <>
inline void Simd<float>::stream(float* to, Vec v) {
  _mm512_stream_ps(to, v);
}

template <>
inline void Simd<float>::finish_streams() {
  _mm_sfence();
}

template <>
inline Simd<float>::Vec Simd<float>::load_partial(const float* from, std::int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}

template <>
inline void Simd<float>::store_partial(float* to, Vec v, std::int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), v);
}

// Transposes while it adds: 13 instructions for four sums.
template <>
inline void Simd<float>::sum_lanes(const Vec (&v)[4], float (&sums)[4]) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  const __m512 low = _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0));
  const __m512 high = _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2));
  const __m512 quads = _mm512_add_ps(low, high);  // a b c d in each 128-bit lane
  const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(quads),
                                      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(quads), 1)));
  _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1)));
}

#endif

namespace detail {

// Lane l of `low` or of `high` (numbered on from kLanes): which one goes to lane l when blocks of kBlock lanes trade
// places.
template <typename T, std::size_t kBlock, bool kUpper, std::size_t... kLane>
typename Simd<T>::Vec trade(typename Simd<T>::Vec low, typename Simd<T>::Vec high, std::index_sequence<kLane...>) {
  constexpr std::size_t kLanes = sizeof...(kLane);
  if constexpr (kUpper) {
    return __builtin_shufflevector(low, high, ((kLane & kBlock) != 0 ? kLanes + kLane : kLane + kBlock)...);
  } else {
    return __builtin_shufflevector(low, high, ((kLane & kBlock) != 0 ? kLanes + kLane - kBlock : kLane)...);
  }
}

template <typename T, std::size_t kBlock>
void transpose_blocks(typename Simd<T>::Vec* rows) {
  constexpr auto kLanes = static_cast<std::size_t>(Simd<T>::kLanes);
  constexpr auto kAll = std::make_index_sequence<kLanes>();
  for (std::size_t row = 0; row < kLanes; ++row) {
    if ((row & kBlock) != 0) continue;
    const auto low = rows[row];
    const auto high = rows[row + kBlock];
    rows[row] = trade<T, kBlock, false>(low, high, kAll);
    rows[row + kBlock] = trade<T, kBlock, true>(low, high, kAll);
  }
  if constexpr (kBlock > 1) transpose_blocks<T, kBlock / 2>(rows);
}

}  // namespace detail

/// Transposes the square of kLanes vectors in place: blocks of half the side trade places across the diagonal, then
/// blocks of a quarter, down to single elements (Eklundh, IEEE Trans. Computers C-21, 1972).
template <typename T>
void transpose_square(typename Simd<T>::Vec (&rows)[Simd<T>::kLanes]) {
  detail::transpose_blocks<T, static_cast<std::size_t>(Simd<T>::kLanes / 2)>(rows);
}

}  // namespace tutti::tensor::cpu
