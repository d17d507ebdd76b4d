// The closed vocabulary of comm: element types, reduction operators and untyped buffers.
//
// Everything here is a value; the functions are pure.
#pragma once

#include <tutti/comm/base/half.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti::comm {

/// The values travel in messages (wire_format.md): new ones are appended. A bool is one byte, 0 or 1.
enum class DType : std::uint8_t {
  Float32,
  Float64,
  Int32,
  Int64,
  UInt8,
  Float16,
  BFloat16,
  Int8,
  UInt16,
  UInt64,
  Bool,
};
inline constexpr DType kLastDType = DType::Bool;

constexpr std::size_t size_of(DType dtype);  // bytes
std::string_view name(DType dtype);          // "float32", ...

/// Whether its elements are floating point numbers (of any width), for which bitwise operators make no sense.
constexpr bool is_floating_point(DType dtype);

/// As for DType, new values are appended.
enum class ReduceOp : std::uint8_t {
  Sum,
  Avg,
  Prod,
  Min,
  Max,
  BAnd,
  BOr,
  BXor,
  User,  // an operator of the caller's: reduction.h
};
inline constexpr ReduceOp kLastReduceOp = ReduceOp::User;

std::string_view name(ReduceOp op);  // "sum", "band", ...

/// Whether `op` can be applied to `dtype`. Avg needs floating point, BAnd, BOr and BXor need integers or bool, User by
/// itself means nothing; everything else is defined for all types.
constexpr bool is_defined(ReduceOp op, DType dtype);
/// Why not, as half a sentence that names both; empty if it can.
std::string refusal(ReduceOp op, DType dtype);

/// The operations a group performs, as they appear in messages, traces and error texts. As for DType, new values are
/// appended.
enum class OpKind : std::uint8_t {
  Broadcast,
  Reduce,
  AllReduce,
  Gather,
  AllGather,
  Scatter,
  Barrier,
  Shutdown,
  Send,
  Recv,
  ReduceScatter,
  AllToAll,
  GatherV,
  ScatterV,
  AllGatherV,
  Split,
  ReduceScatterV,
  AllToAllV,
};
inline constexpr OpKind kLastOpKind = OpKind::AllToAllV;

std::string_view name(OpKind op);  // "all_reduce", ...

/// Whether it is point-to-point: all others are collectives.
constexpr bool is_message(OpKind op) { return op == OpKind::Send || op == OpKind::Recv; }

/// Whether a reduction operator belongs to it: reduce, all_reduce, reduce_scatter, reduce_scatter_v.
constexpr bool is_reduction(OpKind op) {
  return op == OpKind::Reduce || op == OpKind::AllReduce || op == OpKind::ReduceScatter || op == OpKind::ReduceScatterV;
}

constexpr bool has_root(OpKind op) {
  return op == OpKind::Broadcast || op == OpKind::Reduce || op == OpKind::Gather || op == OpKind::Scatter ||
         op == OpKind::GatherV || op == OpKind::ScatterV;
}

/// Whether each rank has a count of its own, known to all ranks: gather_v, scatter_v, all_gather_v, reduce_scatter_v.
/// (all_to_all_v has one for each pair of ranks, known to these two.)
constexpr bool has_counts(OpKind op) {
  return op == OpKind::GatherV || op == OpKind::ScatterV || op == OpKind::AllGatherV || op == OpKind::ReduceScatterV;
}

template <typename... Types>
struct TypeList {
  static constexpr std::uint8_t kBytes[] = {sizeof(Types)...};

  /// How many stand before T.
  template <typename T>
  static constexpr std::size_t index_of() {
    std::size_t index = 0;
    static_cast<void>(((!std::is_same_v<T, Types> && ++index > 0) && ...));
    return index;
  }
};
/// The elements' types, in the order of DType's values.
using ElementTypes = TypeList<float, double, std::int32_t, std::int64_t, std::uint8_t, Half, BFloat16, std::int8_t,
                              std::uint16_t, std::uint64_t, bool>;
static_assert(std::size(ElementTypes::kBytes) == static_cast<std::size_t>(kLastDType) + 1);

/// Compile-time map from C++ type to DType; a type that is not listed does not compile.
template <typename T>
struct DTypeOf : std::integral_constant<DType, static_cast<DType>(ElementTypes::index_of<T>())> {
  static_assert(DTypeOf::value <= kLastDType);
};

static_assert(sizeof(bool) == 1);

/// A non-owning view of `count` elements. The memory belongs to the caller and must live until the operation is done.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::Float32;

  Buffer() = default;
  Buffer(void* d, std::size_t n, DType t) : data(d), count(n), dtype(t) {}
  template <typename T>
  Buffer(std::span<T> values)
      : Buffer(values.data(), values.size(), DTypeOf<T>::value) {}  // NOLINT: implicit by design

  std::size_t nbytes() const { return count * size_of(dtype); }
};

/// The same, read only: what a collective never writes.
struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::Float32;

  ConstBuffer() = default;
  ConstBuffer(const void* d, std::size_t n, DType t) : data(d), count(n), dtype(t) {}
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), dtype(b.dtype) {}  // NOLINT: implicit by design
  template <typename T>
  ConstBuffer(std::span<T> values)  // NOLINT: implicit by design
      : ConstBuffer(values.data(), values.size(), DTypeOf<std::remove_const_t<T>>::value) {}

  std::size_t nbytes() const { return count * size_of(dtype); }
};

template <typename T>
Buffer buffer(std::span<T> values) {
  return values;
}
template <typename T>
ConstBuffer const_buffer(std::span<T> values) {
  return values;
}

constexpr std::size_t size_of(DType dtype) {
  return dtype <= kLastDType ? ElementTypes::kBytes[static_cast<std::size_t>(dtype)] : 0;
}

constexpr bool is_floating_point(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::Float64 || dtype == DType::Float16 || dtype == DType::BFloat16;
}

constexpr bool is_defined(ReduceOp op, DType dtype) {
  const bool bitwise = op == ReduceOp::BAnd || op == ReduceOp::BOr || op == ReduceOp::BXor;
  return op != ReduceOp::User && !(is_floating_point(dtype) ? bitwise : op == ReduceOp::Avg);
}

}  // namespace tutti::comm
