// One decoder for each format, a file each; image.h says what they promise. The file begins with the format's
// signature.
//
// libpng and libjpeg report errors by longjmp. Functions that call setjmp here hold no object with a destructor, and
// memory is owned by their callers.
#pragma once

#include <tutti/trainer/data/image/image.h>

#include <algorithm>

namespace tutti::trainer {

Image decode_png(std::span<const std::uint8_t> file);
Image decode_jpeg(std::span<const std::uint8_t> file);
Image decode_tiff(std::span<const std::uint8_t> file);

/// PIL's conversion: the same integers.
inline void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb) {
  const int white = 255 - cmyk[3];
  for (int c = 0; c < 3; ++c) {
    const int product = cmyk[c] * white + 128;
    rgb[c] = static_cast<std::uint8_t>(std::max(0, white - ((product >> 8) + product) / 256));
  }
}

}  // namespace tutti::trainer
