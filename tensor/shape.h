// Shape: the extents of a tensor, outermost first. A value; no allocation up to kMaxRank dimensions, and no more exist.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tutti::tensor {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  /// Throws std::invalid_argument for an extent below -1, more than kMaxRank of them, or extents (other than 0)
  /// whose product exceeds 2^63. -1 means "the rest" and is
  /// understood by Tensor::reshape only.
  explicit Shape(std::span<const std::int64_t> extents);

  int rank() const { return rank_; }
  /// Negative `axis` counts from the end. Throws std::out_of_range naming the shape.
  std::int64_t operator[](int axis) const;
  std::int64_t numel() const;  // 1 for rank 0
  std::span<const std::int64_t> extents() const { return {extents_.data(), static_cast<std::size_t>(rank_)}; }

  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "(64, 784)"

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace tutti::tensor
