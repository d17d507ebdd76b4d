// The strokes of the generated digits, on a grid of 100 x 100: x to the right, y down.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tutti::trainer {

struct GlyphPoint {
  std::int32_t x;
  std::int32_t y;
  bool pen_down;  // false: the first point of a stroke
};

/// The ways to write `digit` (0 to 9): one or two. `choice` is taken modulo their number.
std::span<const GlyphPoint> glyph(int digit, std::uint32_t choice);

}  // namespace tutti::trainer
