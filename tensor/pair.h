// Pair: one number for each direction of an image.
#pragma once

#include <cstdint>

namespace tutti::tensor {

struct Pair {
  std::int64_t height = 0;
  std::int64_t width = 0;

  // Implicit on purpose: options read {.kernel = 3, .padding = 1}. A single number means both directions.
  constexpr Pair(std::int64_t both) : height(both), width(both) {}
  constexpr Pair(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  bool operator==(const Pair&) const = default;
};

}  // namespace tutti::tensor
