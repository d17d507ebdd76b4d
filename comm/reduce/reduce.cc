// Kernels on vectors of the compiler's own kind (vector_size), as wide as the target's registers. Loads and stores go
// through memcpy, so pointers need no alignment. A block is loaded whole before it is stored, so the result may
// overwrite either operand.
//
// Both values of incoming_first run the same code with swapped operands. That keeps ranks bit-equal even where an
// operator is not commutative in its bits: NaN payloads, min and max of -0 and +0.
#include <tutti/comm/reduce/reduce.h>

#include <bit>
#include <cstring>
#include <type_traits>

namespace tutti::comm {
namespace {

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
    return static_cast<V>(first * second);
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

/// Sums and products of integers are computed unsigned: they wrap instead of being undefined.
template <typename T, bool kInteger = std::is_integral_v<T>>
struct Wrapping {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
struct Wrapping<T, false> {
  using type = T;
};

template <typename T>
void combine(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count, ReduceOp op) {
  using Unsigned = typename Wrapping<T>::type;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return combine<Unsigned, Add>(result, first, second, count);
    case ReduceOp::Prod:
      return combine<Unsigned, Multiply>(result, first, second, count);
    case ReduceOp::Min:
      return combine<T, Minimum>(result, first, second, count);
    case ReduceOp::Max:
      return combine<T, Maximum>(result, first, second, count);
  }
}

template <typename T, typename Op>
void scale(std::byte* data, std::size_t count, T by) {
  for (std::size_t at = 0; at < count * sizeof(T); at += sizeof(T)) {
    const T value = Op::apply(load<T>(data + at), by);
    std::memcpy(data + at, &value, sizeof(T));
  }
}

/// Rounds like a division in all cases: the reciprocal of a power of two is exact, and multiplying is twice as fast.
template <typename T>
void scale_down(std::byte* data, std::size_t count, int divisor) {
  const T by = static_cast<T>(divisor);
  if (divisor > 0 && std::has_single_bit(static_cast<unsigned>(divisor))) {
    scale<T, Multiply>(data, count, T{1} / by);
  } else {
    scale<T, Divide>(data, count, by);
  }
}

}  // namespace

void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, ReduceOp op, bool incoming_first) {
  auto* result = static_cast<std::byte*>(target);
  const std::byte* first = incoming_first ? static_cast<const std::byte*>(incoming) : result;
  const std::byte* second = incoming_first ? result : static_cast<const std::byte*>(incoming);
  switch (dtype) {
    case DType::Float32:
      return combine<float>(result, first, second, count, op);
    case DType::Float64:
      return combine<double>(result, first, second, count, op);
    case DType::Int32:
      return combine<std::int32_t>(result, first, second, count, op);
    case DType::Int64:
      return combine<std::int64_t>(result, first, second, count, op);
    case DType::UInt8:
      return combine<std::uint8_t>(result, first, second, count, op);
  }
}

void scale_down(void* data, std::size_t count, DType dtype, int divisor) {
  auto* bytes = static_cast<std::byte*>(data);
  if (dtype == DType::Float32) scale_down<float>(bytes, count, divisor);
  if (dtype == DType::Float64) scale_down<double>(bytes, count, divisor);
}

}  // namespace tutti::comm
