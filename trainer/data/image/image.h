// Image: a decoded picture, 8-bit RGB, whatever the file held; and the files it is decoded from.
//
// What a file holds becomes RGB as PIL's Image.open(file).convert("RGB") makes it: grey is repeated, palettes are
// looked up, alpha is dropped (premultiplied TIFFs are divided by it first), CMYK is converted by PIL's formula, a
// TIFF's orientation is applied and a JPEG's is not, ICC profiles and gamma are ignored. 16-bit samples keep their high
// byte, as PIL does for colour (PIL clips 16-bit grey at 255 instead, which leaves nothing of most pictures).
// Thread-safety: pure functions; any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::trainer {

/// A header that claims more pixels than this is refused before memory is taken: 8192 x 8192 pixels are 192 MiB.
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{8192} * 8192;
/// A larger file is refused without being read.
inline constexpr std::uint64_t kMaxImageFileBytes = std::uint64_t{1} << 30;

struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels;  // (height, width, 3)

  /// Black. Throws DataError when the size is 0 or above kMaxImagePixels.
  static Image of_size(std::int64_t width, std::int64_t height);
};

/// PNG, JPEG or TIFF, told by its first bytes, not by its name; of several pictures in one TIFF the first. Throws
/// DataError with the reason, without a path. A file that is damaged or ends too early is an error, never a picture
/// with a grey rest. Writes nothing to stderr.
Image decode_image(std::span<const std::uint8_t> file);

/// The same for one format, a file each; `file` begins with its signature.
Image decode_png(std::span<const std::uint8_t> file);
Image decode_jpeg(std::span<const std::uint8_t> file);
Image decode_tiff(std::span<const std::uint8_t> file);

/// decode_image of a file's content; the path stands at the head of the error.
Image read_image(const std::string& path);

/// Antialiased bilinear resize, integer for integer that of PIL's Image.resize((width, height), BILINEAR): see
/// resize.cc. The image itself when it has that size already. REQUIRES: width and height above 0.
Image resize(Image image, std::int64_t width, std::int64_t height);

}  // namespace tutti::trainer
