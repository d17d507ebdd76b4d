// Kernels on the vectors of elementwise.h.
//
// Both values of incoming_first run the same code with swapped operands. That keeps ranks bit-equal even where an
// operator is not commutative in its bits: NaN payloads, min and max of -0 and +0.
#include <tutti/comm/reduce/elementwise.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/reduce/reduce_half.h>

#include <bit>

namespace tutti::comm {
namespace {

using namespace elementwise;

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
void combine_by(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count, ReduceOp op) {
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
    case ReduceOp::BAnd:
      if constexpr (std::is_integral_v<T>) combine<T, BitAnd>(result, first, second, count);
      return;
    case ReduceOp::BOr:
      if constexpr (std::is_integral_v<T>) combine<T, BitOr>(result, first, second, count);
      return;
    case ReduceOp::BXor:
      if constexpr (std::is_integral_v<T>) combine<T, BitXor>(result, first, second, count);
      return;
    case ReduceOp::User:
      return;
  }
}

// Bools are bytes. Whatever a peer sent, the result is 0 or 1, so that reading it as a bool is defined.
struct Or {
  template <typename V>
  static V apply(V first, V second) {
    return ((first | second) != V{}) ? static_cast<V>(V{} + 1) : V{};
  }
};
struct And {
  template <typename V>
  static V apply(V first, V second) {
    return ((first != V{}) & (second != V{})) ? static_cast<V>(V{} + 1) : V{};
  }
};
struct Xor {
  template <typename V>
  static V apply(V first, V second) {
    return ((first != V{}) ^ (second != V{})) ? static_cast<V>(V{} + 1) : V{};
  }
};

void combine_bools(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Max:
    case ReduceOp::BOr:
      return combine<std::uint8_t, Or>(result, first, second, count);
    case ReduceOp::Prod:
    case ReduceOp::Min:
    case ReduceOp::BAnd:
      return combine<std::uint8_t, And>(result, first, second, count);
    case ReduceOp::BXor:
      return combine<std::uint8_t, Xor>(result, first, second, count);
    case ReduceOp::Avg:
    case ReduceOp::User:
      return;
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
      return combine_by<float>(result, first, second, count, op);
    case DType::Float64:
      return combine_by<double>(result, first, second, count, op);
    case DType::Int32:
      return combine_by<std::int32_t>(result, first, second, count, op);
    case DType::Int64:
      return combine_by<std::int64_t>(result, first, second, count, op);
    case DType::UInt8:
      return combine_by<std::uint8_t>(result, first, second, count, op);
    case DType::Float16:
      return combine_float16(result, first, second, count, op);
    case DType::BFloat16:
      return combine_bfloat16(result, first, second, count, op);
    case DType::Int8:
      return combine_by<std::int8_t>(result, first, second, count, op);
    case DType::UInt16:
      return combine_by<std::uint16_t>(result, first, second, count, op);
    case DType::UInt64:
      return combine_by<std::uint64_t>(result, first, second, count, op);
    case DType::Bool:
      return combine_bools(result, first, second, count, op);
  }
}

void scale_down(void* data, std::size_t count, DType dtype, int divisor) {
  auto* bytes = static_cast<std::byte*>(data);
  if (dtype == DType::Float32) scale_down<float>(bytes, count, divisor);
  if (dtype == DType::Float64) scale_down<double>(bytes, count, divisor);
  if (dtype == DType::Float16) scale_down_float16(bytes, count, divisor);
  if (dtype == DType::BFloat16) scale_down_bfloat16(bytes, count, divisor);
}

}  // namespace tutti::comm
