// Augmentation: a training picture is flipped and turned by right angles, each time otherwise, and the label stays.
//
// What happens to a sample is drawn from its key, so that it is the same on any number of ranks and threads and in any
// order. A picture is first turned, then flipped. Pure functions.
#pragma once

#include <cstdint>

namespace tutti::trainer {

struct Augmentation {
  bool flip_horizontal = false;  // left and right change places, in half of the cases
  bool flip_vertical = false;
  bool rotate = false;  // by 0, 90, 180 or 270 degrees, counterclockwise; square pictures only

  bool any() const { return flip_horizontal || flip_vertical || rotate; }
};

/// What was drawn for one sample.
struct Placement {
  bool flip_horizontal = false;
  bool flip_vertical = false;
  int quarter_turns = 0;  // 0 to 3, counterclockwise
};

/// The same key gives the same draws for each part whichever other parts are switched on.
Placement draw_placement(const Augmentation& augmentation, std::uint64_t key);

struct PictureSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;

  std::int64_t bytes() const { return height * width * channels; }
};

/// Writes value table[c * 256 + byte] of every element of the placed picture: bytes (H, W, C) -> values (H, W, C).
/// REQUIRES: H == W for an odd number of quarter turns.
void place_picture(const std::uint8_t* bytes, const PictureSize& size, const Placement& placement, const float* table,
                   float* values);

}  // namespace tutti::trainer
