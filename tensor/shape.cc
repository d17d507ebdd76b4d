#include <tutti/tensor/shape.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::tensor {
namespace {

std::string list(std::span<const std::int64_t> extents) {
  std::string text = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(extents[i]);
  }
  return text + ")";
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> extents) {
  if (extents.size() > static_cast<std::size_t>(kMaxRank)) {
    throw std::invalid_argument("shape " + list(extents) + " has " + std::to_string(extents.size()) +
                                " dimensions; at most " + std::to_string(kMaxRank) + " are supported");
  }
  std::int64_t product = 1;
  bool overflow = false;
  for (const std::int64_t extent : extents) {
    if (extent < -1)
      throw std::invalid_argument("shape " + list(extents) + " has the negative extent " + std::to_string(extent));
    if (extent > 0) overflow |= __builtin_mul_overflow(product, extent, &product);
  }
  if (overflow) throw std::invalid_argument("shape " + list(extents) + " has more than 2^63 elements");
  rank_ = static_cast<int>(extents.size());
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::int64_t Shape::operator[](int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  if (index < 0 || index >= rank_) {
    throw std::out_of_range("axis " + std::to_string(axis) + " of shape " + to_string() + ", which has " +
                            std::to_string(rank_) + " dimensions");
  }
  return extents_[static_cast<std::size_t>(index)];
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank_; ++i) {
    const std::int64_t extent = extents_[static_cast<std::size_t>(i)];
    if (extent == 0) return 0;
    product *= extent;
  }
  return product;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(extents_.begin(), extents_.begin() + rank_, other.extents_.begin());
}

std::string Shape::to_string() const { return list(extents()); }

}  // namespace tutti::tensor
