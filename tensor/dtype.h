// Element types of tensors. tensor knows nothing of comm; trainer maps one DType to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::tensor {

enum class DType : std::uint8_t { Float32, Float64, Int64, UInt8 };

std::size_t size_of(DType dtype);
std::string_view name(DType dtype);  // "float32", ...

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::Float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::Float64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::Int64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::UInt8;
};

}  // namespace tutti::tensor
