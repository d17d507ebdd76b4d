// How a TIFF picture lies in its file, and its samples in one order: strips or tiles, planes or pixels, 1 to 16 bits.
// A part of decode_tiff.cc; pure functions of an open file.
// https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
#pragma once

#include <cstdint>
#include <vector>

struct tiff;  // libtiff's TIFF

namespace tutti::trainer {

/// A strip or tile that claims more is refused.
inline constexpr std::int64_t kMaxTiffBlockBytes = std::int64_t{1} << 29;

enum class TiffColours { Grey, Palette, Rgb, DividedRgb, Cmyk };  // DividedRgb: premultiplied, alpha follows

struct TiffLayout {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int bits = 8;          // 1, 2, 4, 8 or 16
  int samples = 1;       // a pixel in the file, extra ones included
  int used_samples = 1;  // the first of them
  bool planes = false;   // each sample's plane by itself
  bool tiled = false;
  std::int64_t block_width = 0;
  std::int64_t block_height = 0;
  bool white_is_zero = false;
  int orientation = 1;
  TiffColours colours = TiffColours::Grey;
};

/// Throws DataError naming the field for a kind of picture that is not read (floating point, Lab, ...).
TiffLayout tiff_layout(tiff* file);

/// samples (height, width, used_samples), 16 bits cut to the high 8. False when libtiff reported an error.
/// Throws DataError for blocks whose size cannot be right.
bool read_tiff_samples(tiff* file, const TiffLayout& layout, std::vector<std::uint8_t>& samples);

}  // namespace tutti::trainer
