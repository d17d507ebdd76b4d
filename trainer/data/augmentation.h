// Augmentation: a training picture is flipped, turned by right angles, moved; each time otherwise, and the label stays.
//
// What happens to a sample is drawn from its key, so that it is the same on any number of ranks and threads and in any
// order. A picture is first cropped, then turned, then flipped. Pure functions.
#pragma once

#include <cstdint>

namespace tutti::trainer {

struct Augmentation {
  bool flip_horizontal = false;  // left and right change places, in half of the cases
  bool flip_vertical = false;
  bool rotate = false;   // by 0, 90, 180 or 270 degrees, counterclockwise; square pictures only
  int crop_padding = 0;  // p > 0: a window of the picture's size, anywhere in the picture with p black pixels around it

  bool any() const { return flip_horizontal || flip_vertical || rotate || crop_padding > 0; }
};

/// What was drawn for one sample.
struct Placement {
  bool flip_horizontal = false;
  bool flip_vertical = false;
  int quarter_turns = 0;  // 0 to 3, counterclockwise
  std::int64_t down = 0;  // the window starts here, relative to the picture; in [-crop_padding, crop_padding]
  std::int64_t right = 0;
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
/// Where the window leaves the picture the byte is 0. REQUIRES: H == W for an odd number of quarter turns.
void place_picture(const std::uint8_t* bytes, const PictureSize& size, const Placement& placement, const float* table,
                   float* values);

}  // namespace tutti::trainer
