// Makes pictures in forms that PIL does not write, and headers that lie, for the tests of decoding.
#pragma once

#include <tutti/tests/trainer/data/data_files.h>
#include <tutti/trainer/data/image/image.h>

#include <cstdint>

namespace tutti::trainer {

/// The picture that golden/make_pictures.py computes, too.
Image pattern(std::int64_t width, std::int64_t height);

Bytes png_file(const Image& image, bool interlaced = false);
Bytes jpeg_file(const Image& image, int quality = 90);

struct TiffForm {
  bool tiled = false;             // 32 x 32
  bool planes = false;            // each channel by itself
  int bits = 8;                   // or 16: the high byte is the picture's
  std::uint16_t compression = 1;  // none
  std::uint32_t rows_per_strip = 3;
  bool big_endian = false;
  bool private_tags = false;  // XMP, Photoshop's, and 65000 that nobody knows
  int extra_alpha = 0;        // 1: premultiplied, 2: plain; alpha is 128 everywhere
};
Bytes tiff_file(const Image& image, const TiffForm& form);

/// Whole headers of pictures of that size, and hardly any content.
Bytes png_header(std::uint32_t width, std::uint32_t height);
Bytes jpeg_header(std::uint16_t width, std::uint16_t height);
Bytes tiff_header(std::uint32_t width, std::uint32_t height);

Bytes bytes_of(const std::string& text);
/// The first `count` bytes.
Bytes cut(Bytes bytes, std::size_t count);

}  // namespace tutti::trainer
