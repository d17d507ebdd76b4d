// Which of many numbers are the largest. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::trainer {

/// Writes the positions of the indices.size() numbers with the largest magnitudes, in ascending order. Of equal ones
/// the first are taken; a NaN counts as larger than all numbers, so that it is not hidden. Takes time in proportion to
/// values.size() (a radix selection). Throws std::invalid_argument for more indices than values, or than an int32 can
/// number.
void largest_magnitudes(std::span<const float> values, std::span<std::int32_t> indices);

}  // namespace tutti::trainer
