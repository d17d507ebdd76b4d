// Kernels on the vectors of elementwise.h.
//
// Both values of incoming_first run the same code with swapped operands. That keeps ranks bit-equal even where an
// operator is not commutative in its bits: NaN payloads, min and max of -0 and +0.
#include <tutti/comm/base/error.h>
#include <tutti/comm/reduce/elementwise.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/reduce/reduce_half.h>

#include <bit>
#include <cstring>

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
void combine_by(const Rows& rows, ReduceOp op, int divisor) {
  using Unsigned = typename Wrapping<T>::type;
  switch (op) {
    case ReduceOp::Avg:
      if constexpr (std::is_floating_point_v<T>) {
        if (divisor != 0) return combine(Mean<T>(divisor), rows);
      }
      [[fallthrough]];
    case ReduceOp::Sum:
      return combine(Plain<Unsigned, Add>(), rows);
    case ReduceOp::Prod:
      return combine(Plain<Unsigned, Multiply>(), rows);
    case ReduceOp::Min:
      return combine(Plain<T, Minimum>(), rows);
    case ReduceOp::Max:
      return combine(Plain<T, Maximum>(), rows);
    case ReduceOp::BAnd:
      if constexpr (std::is_integral_v<T>) combine(Plain<T, BitAnd>(), rows);
      return;
    case ReduceOp::BOr:
      if constexpr (std::is_integral_v<T>) combine(Plain<T, BitOr>(), rows);
      return;
    case ReduceOp::BXor:
      if constexpr (std::is_integral_v<T>) combine(Plain<T, BitXor>(), rows);
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

void combine_bools(const Rows& rows, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Max:
    case ReduceOp::BOr:
      return combine(Plain<std::uint8_t, Or>(), rows);
    case ReduceOp::Prod:
    case ReduceOp::Min:
    case ReduceOp::BAnd:
      return combine(Plain<std::uint8_t, And>(), rows);
    case ReduceOp::BXor:
      return combine(Plain<std::uint8_t, Xor>(), rows);
    case ReduceOp::Avg:
    case ReduceOp::User:
      return;
  }
}

/// Sums of doubles that are stored as floats, at half of the offset.
struct RoundedSum : Plain<double, Add> {
  static constexpr std::size_t kTargetElementBytes = sizeof(float);

  template <typename V>
  static void store(std::byte* target, std::size_t at, V value, std::size_t /*bytes*/) {
    if constexpr (std::is_same_v<V, double>) {
      const auto rounded = static_cast<float>(value + 0.0);
      std::memcpy(target + at / 2, &rounded, sizeof rounded);
    } else {
      typedef float Rounded __attribute__((vector_size(sizeof(V) / 2)));
      const Rounded rounded = __builtin_convertvector(value + 0.0, Rounded);
      std::memcpy(target + at / 2, &rounded, sizeof rounded);
    }
  }
};

/// Avg divides by `divisor`, unless that is 0.
void combine_rows(const Rows& rows, DType dtype, ReduceOp op, int divisor) {
  switch (dtype) {
    case DType::Float32:
      return combine_by<float>(rows, op, divisor);
    case DType::Float64:
      return combine_by<double>(rows, op, divisor);
    case DType::Int32:
      return combine_by<std::int32_t>(rows, op, divisor);
    case DType::Int64:
      return combine_by<std::int64_t>(rows, op, divisor);
    case DType::UInt8:
      return combine_by<std::uint8_t>(rows, op, divisor);
    case DType::Float16:
      return combine_float16(rows, op, divisor);
    case DType::BFloat16:
      return combine_bfloat16(rows, op, divisor);
    case DType::Int8:
      return combine_by<std::int8_t>(rows, op, divisor);
    case DType::UInt16:
      return combine_by<std::uint16_t>(rows, op, divisor);
    case DType::UInt64:
      return combine_by<std::uint64_t>(rows, op, divisor);
    case DType::Bool:
      return combine_bools(rows, op);
  }
}

}  // namespace

void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, ReduceOp op, bool incoming_first) {
  std::byte* const own = static_cast<std::byte*>(target);
  const auto* theirs = static_cast<const std::byte*>(incoming);
  const std::byte* const sources[] = {incoming_first ? theirs : own, incoming_first ? own : theirs};
  combine_rows({{&own, 1}, sources, count * size_of(dtype)}, dtype, op, 0);
}

void reduce_all(std::span<std::byte* const> targets, std::span<const std::byte* const> sources, std::size_t count,
                DType dtype, ReduceOp op, Walk walk) {
  combine_rows({targets, sources, count * size_of(dtype), walk}, dtype, op, static_cast<int>(sources.size()));
}

void reduce_rounded(std::span<std::byte* const> targets, std::span<const std::byte* const> sources, std::size_t count,
                    Walk walk) {
  combine(RoundedSum(), {targets, sources, count * sizeof(double), walk});
}

void scale_down(void* data, std::size_t count, DType dtype, int divisor) {
  if (!is_floating_point(dtype)) return;
  std::byte* const bytes = static_cast<std::byte*>(data);
  const std::byte* const source = bytes;
  combine_rows({{&bytes, 1}, {&source, 1}, count * size_of(dtype)}, dtype, ReduceOp::Avg, divisor);
}

void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, const UserOp& op,
                 bool incoming_first, std::vector<std::byte>& spare) {
  if (count == 0) return;
  try {
    if (!incoming_first) return op.combine(target, incoming, count, dtype);
    // Even if the operator is commutative: two ranks that hold each other's operands must get equal bits.
    const std::size_t nbytes = count * size_of(dtype);
    if (spare.size() < nbytes) spare.resize(nbytes);
    std::memcpy(spare.data(), incoming, nbytes);
    op.combine(spare.data(), target, count, dtype);
    std::memcpy(target, spare.data(), nbytes);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::Operator, "the operator '" + op.name + "' threw: " + error.what());
  } catch (...) {
    throw Error(ErrorCode::Operator, "the operator '" + op.name + "' threw something that is no std::exception");
  }
}

}  // namespace tutti::comm
