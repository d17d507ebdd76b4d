// The loops under all reductions, over vectors of the compiler's own kind. Internal to comm/reduce.
//
// Vectors are as wide as the target's registers. Loads and stores go through memcpy, so pointers need no alignment. A
// vector is loaded whole before it is stored, so a result may overwrite an operand.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>

namespace tutti::comm::elementwise {

#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

using Add = std::plus<>;
struct Multiply {
  template <typename V>
  V operator()(V first, V second) const {
    if constexpr (std::is_integral_v<V> && sizeof(V) < sizeof(int)) {  // int would overflow: 65535 * 65535
      return static_cast<V>(static_cast<unsigned>(first) * second);
    } else {
      return static_cast<V>(first * second);
    }
  }
};
// A NaN compares false with everything: `second` is taken when it is NaN, `first` is taken when it is.
struct Minimum {
  template <typename V>
  V operator()(V first, V second) const {
    return ((first < second) | (first != first)) ? first : second;
  }
};
struct Maximum {
  template <typename V>
  V operator()(V first, V second) const {
    return ((first > second) | (first != first)) ? first : second;
  }
};

template <typename V>
V load(const std::byte* from, std::size_t bytes = sizeof(V)) {  // fewer bytes are filled up with zeros
  V value{};
  std::memcpy(&value, from, bytes);
  return value;
}

/// The arithmetic of one type's elements: `Vector` is what a block consists of, `Tail` what remains after the blocks.
template <typename T, typename Op>
struct Plain {
  using Vector = typename VectorOf<T>::type;
  using Tail = T;
  static constexpr bool kPadsTail = false;
  static constexpr std::size_t kElementBytes = sizeof(T);
  static constexpr std::size_t kTargetElementBytes = sizeof(T);

  template <typename V>
  static V apply(V first, V second) {
    return static_cast<V>(Op()(first, second));
  }
  template <typename V>
  static V finish(V value) {
    return value;
  }
  /// The value, or its first `bytes`, at offset `at` of the sources.
  template <typename V>
  static void store(std::byte* target, std::size_t at, V value, std::size_t bytes = sizeof(V)) {
    std::memcpy(target + at, &value, bytes);
  }
};

/// The sum divided at the end, rounded as a division: the reciprocal of a power of two is exact, and multiplying is
/// faster.
template <typename T>
struct Mean : Plain<T, Add> {
  explicit Mean(int divisor)
      : by(static_cast<T>(divisor)),
        reciprocal(T{1} / by),
        is_exact(divisor > 0 && std::has_single_bit(static_cast<unsigned>(divisor))) {}

  template <typename V>
  V finish(V sum) const {
    return is_exact ? sum * reciprocal : sum / by;
  }

  T by;
  T reciprocal;
  bool is_exact;
};

/// `nbytes` of each source are reduced from the left, and written to each target. A target may be a source.
struct Rows {
  std::span<std::byte* const> targets;
  std::span<const std::byte* const> sources;
  std::size_t nbytes;
};

/// One value of type V, or its first `bytes`, at offset `at`.
template <typename V, typename Arithmetic, typename Targets, typename Sources>
[[gnu::always_inline]] inline void combine_at(const Arithmetic& arithmetic, const Targets& targets,
                                              const Sources& sources, std::size_t at, std::size_t bytes = sizeof(V)) {
  V value = load<V>(sources[0] + at, bytes);
  for (std::size_t source = 1; source < sources.size(); ++source)
    value = arithmetic.apply(value, load<V>(sources[source] + at, bytes));
  value = arithmetic.finish(value);
  for (std::byte* const target : targets) arithmetic.store(target, at, value, bytes);
}

/// Whole vectors from offset `at` on; returns the offset behind them.
template <typename Arithmetic, typename Targets, typename Sources>
std::size_t combine_vectors(const Arithmetic arithmetic, const Targets targets, const Sources sources, std::size_t at,
                            std::size_t nbytes) {
  using Vector = typename Arithmetic::Vector;
#pragma GCC unroll 4
  for (; at + sizeof(Vector) <= nbytes; at += sizeof(Vector)) combine_at<Vector>(arithmetic, targets, sources, at);
  return at;
}

/// Whole blocks of vectors from offset `at` on, which stay in registers from the first source to the last target.
/// Returns the offset behind them.
template <typename Arithmetic, typename Targets, typename Sources>
std::size_t combine_blocks(const Arithmetic arithmetic, const Targets targets, const Sources sources, std::size_t at,
                           const std::size_t nbytes) {
  using Vector = typename Arithmetic::Vector;
  constexpr std::size_t kVectors = 4;
  for (; at + kVectors * sizeof(Vector) <= nbytes; at += kVectors * sizeof(Vector)) {
    Vector block[kVectors];
    const auto offset = [at](std::size_t k) { return at + k * sizeof(Vector); };
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kVectors; ++k) block[k] = load<Vector>(sources[0] + offset(k));
    for (std::size_t source = 1; source < sources.size(); ++source) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kVectors; ++k)
        block[k] = arithmetic.apply(block[k], load<Vector>(sources[source] + offset(k)));
    }
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kVectors; ++k) block[k] = arithmetic.finish(block[k]);
    for (std::byte* const target : targets) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kVectors; ++k) arithmetic.store(target, offset(k), block[k], sizeof(Vector));
    }
  }
  return at;
}

template <typename Arithmetic>
std::size_t combine_vectors(const Arithmetic& arithmetic, const Rows& rows, std::size_t at) {
  if (rows.nbytes - at < sizeof(typename Arithmetic::Vector)) return at;
  // Where the compiler is told how many rows there are the loops over them disappear.
  const std::array<const std::byte*, 2> two{rows.sources.front(), rows.sources.back()};
  if (rows.sources.size() == 2 && rows.targets.size() == 1) {
    return combine_vectors(arithmetic, std::array<std::byte*, 1>{rows.targets[0]}, two, at, rows.nbytes);
  }
  if (rows.sources.size() == 2 && rows.targets.size() == 2) {
    const std::array<std::byte*, 2> targets{rows.targets[0], rows.targets[1]};
    at = combine_blocks(arithmetic, targets, two, at, rows.nbytes);
  } else {
    at = combine_blocks(arithmetic, rows.targets, rows.sources, at, rows.nbytes);
  }
  return combine_vectors(arithmetic, rows.targets, rows.sources, at, rows.nbytes);
}

/// The rest, shorter than a vector, from offset `at` to `end`.
template <typename Arithmetic>
void combine_rest(const Arithmetic& arithmetic, const Rows& rows, std::size_t at, std::size_t end) {
  using Tail = typename Arithmetic::Tail;
  for (; at < end; at += sizeof(Tail))
    combine_at<Tail>(arithmetic, rows.targets, rows.sources, at,
                     Arithmetic::kPadsTail ? std::min(sizeof(Tail), end - at) : sizeof(Tail));
}

/// How many bytes of long rows lie before the first target's first aligned vector: malloc aligns to less than a
/// vector's width, and stores across cache lines take up to half as long again. Bytes of the sources, of which a target
/// may keep shorter elements.
template <typename Arithmetic>
std::size_t bytes_before_vectors(const Rows& rows) {
  constexpr std::size_t kWorthwhile = 16 * 1024;
  constexpr std::size_t kElement = Arithmetic::kTargetElementBytes;
  constexpr std::size_t kStored = kVectorBytes / Arithmetic::kElementBytes * kElement;  // of a vector
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(rows.targets[0]) % kStored;
  if (rows.nbytes < kWorthwhile || beyond % kElement != 0) return 0;
  return (kStored - beyond) % kStored / kElement * Arithmetic::kElementBytes;
}

template <typename Arithmetic>
void combine(const Arithmetic& arithmetic, const Rows& rows) {
  const std::size_t begin = bytes_before_vectors<Arithmetic>(rows);
  combine_rest(arithmetic, rows, 0, begin);
  combine_rest(arithmetic, rows, combine_vectors(arithmetic, rows, begin), rows.nbytes);
}

}  // namespace tutti::comm::elementwise
