// The loops under all reductions, over vectors of the compiler's own kind. Internal to comm/reduce.
//
// Vectors are as wide as the target's registers. Loads and stores go through memcpy, so pointers need no alignment. A
// block is loaded whole before it is stored, so the result may overwrite either operand.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace tutti::comm::elementwise {

#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
constexpr std::size_t kUnroll = 4;  // vectors in flight

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

struct Add {
  template <typename V>
  static V apply(V first, V second) {
    return static_cast<V>(first + second);
  }
};
struct Multiply {
  template <typename V>
  static V apply(V first, V second) {
    if constexpr (std::is_integral_v<V> && sizeof(V) < sizeof(int)) {  // int would overflow: 65535 * 65535
      return static_cast<V>(static_cast<unsigned>(first) * second);
    } else {
      return static_cast<V>(first * second);
    }
  }
};
struct Divide {
  template <typename V>
  static V apply(V first, V second) {
    return first / second;
  }
};
// A NaN compares false with everything: `second` is taken when it is NaN, `first` is taken when it is.
struct Minimum {
  template <typename V>
  static V apply(V first, V second) {
    return ((first < second) | (first != first)) ? first : second;
  }
};
struct Maximum {
  template <typename V>
  static V apply(V first, V second) {
    return ((first > second) | (first != first)) ? first : second;
  }
};

struct BitAnd {
  template <typename V>
  static V apply(V first, V second) {
    return static_cast<V>(first & second);
  }
};
struct BitOr {
  template <typename V>
  static V apply(V first, V second) {
    return static_cast<V>(first | second);
  }
};
struct BitXor {
  template <typename V>
  static V apply(V first, V second) {
    return static_cast<V>(first ^ second);
  }
};

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// result = first (op) second for all whole blocks of kUnroll vectors; returns the number of bytes done.
template <typename T, typename Op>
std::size_t combine_blocks(std::byte* result, const std::byte* first, const std::byte* second, std::size_t nbytes) {
  using Vector = typename VectorOf<T>::type;
  constexpr std::size_t kBlock = kUnroll * kVectorBytes;
  std::size_t at = 0;
  for (; at + kBlock <= nbytes; at += kBlock) {
    Vector values[kUnroll];
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t offset = at + u * kVectorBytes;
      values[u] = Op::template apply<Vector>(load<Vector>(first + offset), load<Vector>(second + offset));
    }
    std::memcpy(result + at, values, kBlock);
  }
  return at;
}

template <typename T, typename Op>
void combine(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count) {
  const std::size_t nbytes = count * sizeof(T);
  for (std::size_t at = combine_blocks<T, Op>(result, first, second, nbytes); at < nbytes; at += sizeof(T)) {
    const T value = Op::template apply<T>(load<T>(first + at), load<T>(second + at));
    std::memcpy(result + at, &value, sizeof(T));
  }
}

}  // namespace tutti::comm::elementwise
