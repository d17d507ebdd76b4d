#include <tiffio.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/tiff_blocks.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tutti::trainer {
namespace {

constexpr int kMaxSamples = 8;

[[noreturn]] void refuse(const std::string& what, int value, const char* expected) {
  throw DataError("is a TIFF picture with " + what + " " + std::to_string(value) + "; read are " + expected);
}

int field(TIFF* file, std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(file, tag, &value);
  return value;
}

bool premultiplied(TIFF* file) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(file, TIFFTAG_EXTRASAMPLES, &count, &kinds);
  return count > 0 && kinds != nullptr && kinds[0] == EXTRASAMPLE_ASSOCALPHA;
}

void read_colours(TIFF* file, TiffLayout& layout) {
  std::uint16_t photometric = 0;
  if (TIFFGetField(file, TIFFTAG_PHOTOMETRIC, &photometric) != 1) {
    photometric = layout.samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
  }
  if (photometric == PHOTOMETRIC_YCBCR && field(file, TIFFTAG_COMPRESSION) == COMPRESSION_JPEG && !layout.planes) {
    TIFFSetField(file, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    photometric = PHOTOMETRIC_RGB;
  }
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      layout.white_is_zero = photometric == PHOTOMETRIC_MINISWHITE;
      layout.colours = TiffColours::Grey;
      break;
    case PHOTOMETRIC_PALETTE:
      layout.colours = TiffColours::Palette;
      break;
    case PHOTOMETRIC_RGB:
      layout.colours = layout.samples > 3 && premultiplied(file) ? TiffColours::DividedRgb : TiffColours::Rgb;
      layout.used_samples = layout.colours == TiffColours::Rgb ? 3 : 4;
      break;
    case PHOTOMETRIC_SEPARATED:
      layout.colours = TiffColours::Cmyk;
      layout.used_samples = 4;
      break;
    default:
      refuse("photometric interpretation", photometric, "grey (0, 1), RGB (2), palette (3), CMYK (5) and JPEG's (6)");
  }
}

// Values of one sample within a row of a block.
void copy_samples(const std::uint8_t* row, const TiffLayout& layout, int first, int step, std::int64_t count,
                  std::uint8_t* target) {
  for (std::int64_t i = 0; i < count; ++i, target += layout.used_samples) {
    const std::int64_t index = first + i * step;
    if (layout.bits == 8) {
      *target = row[index];
    } else if (layout.bits == 16) {
      std::uint16_t value = 0;
      std::memcpy(&value, row + 2 * index, sizeof value);
      *target = static_cast<std::uint8_t>(value >> 8);
    } else {
      const std::int64_t bit = index * layout.bits;
      const int shift = static_cast<int>(8 - layout.bits - bit % 8);
      *target = static_cast<std::uint8_t>((row[bit / 8] >> shift) & ((1 << layout.bits) - 1));
    }
  }
}

struct Block {
  std::int64_t x, y;           // of its first pixel
  std::int64_t width, height;  // as stored, which at the right and lower edge of tiles is more than the picture
  std::uint32_t number;        // libtiff's
  int plane;                   // -1: all samples
};

Block block_at(TIFF* file, const TiffLayout& layout, std::int64_t x, std::int64_t y, int plane) {
  Block block{.x = x, .y = y, .width = layout.block_width, .height = layout.block_height, .number = 0, .plane = plane};
  const auto row = static_cast<std::uint32_t>(y);
  const auto sample = static_cast<std::uint16_t>(std::max(0, plane));
  if (layout.tiled) {
    block.number = TIFFComputeTile(file, static_cast<std::uint32_t>(x), row, 0, sample);
  } else {
    block.number = TIFFComputeStrip(file, row, sample);
    block.height = std::min(block.height, layout.height - y);
  }
  return block;
}

class BlockReader {
 public:
  BlockReader(TIFF* file, const TiffLayout& layout, std::uint8_t* samples)
      : file_(file), layout_(layout), samples_(samples) {}

  bool read(const Block& block) {
    const std::int64_t stored = block.plane < 0 ? layout_.samples : 1;
    const std::int64_t row_bytes = (block.width * stored * layout_.bits + 7) / 8;
    const std::int64_t nbytes = row_bytes * block.height;
    check_size(block, nbytes);
    buffer_.resize(static_cast<std::size_t>(nbytes));
    const tmsize_t got = layout_.tiled ? TIFFReadEncodedTile(file_, block.number, buffer_.data(), nbytes)
                                       : TIFFReadEncodedStrip(file_, block.number, buffer_.data(), nbytes);
    if (got != nbytes) return false;
    place(block, row_bytes, static_cast<int>(stored));
    return true;
  }

 private:
  void check_size(const Block& block, std::int64_t nbytes) const {
    const std::uint64_t claimed =
        layout_.tiled ? TIFFTileSize64(file_) : TIFFVStripSize64(file_, static_cast<std::uint32_t>(block.height));
    if (nbytes > kMaxTiffBlockBytes) {
      throw DataError("is a TIFF picture with a strip or tile of " + std::to_string(nbytes) +
                      " bytes, more than the limit of " + std::to_string(kMaxTiffBlockBytes));
    }
    if (claimed != static_cast<std::uint64_t>(nbytes)) {
      throw DataError("is a TIFF picture with a strip or tile of " + std::to_string(claimed) + " bytes, where " +
                      std::to_string(nbytes) + " were expected");
    }
  }

  void place(const Block& block, std::int64_t row_bytes, int stored) {
    const std::int64_t columns = std::min(block.width, layout_.width - block.x);
    const std::int64_t rows = std::min(block.height, layout_.height - block.y);
    const int first = std::max(0, block.plane);
    const int last = block.plane < 0 ? layout_.used_samples : first + 1;
    for (std::int64_t y = 0; y < rows; ++y) {
      const std::uint8_t* const row = buffer_.data() + y * row_bytes;
      std::uint8_t* const target = samples_ + ((block.y + y) * layout_.width + block.x) * layout_.used_samples;
      for (int s = first; s < last; ++s) {
        copy_samples(row, layout_, block.plane < 0 ? s : 0, stored, columns, target + s);
      }
    }
  }

  TIFF* file_;
  const TiffLayout& layout_;
  std::uint8_t* samples_;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace

TiffLayout tiff_layout(TIFF* file) {
  TiffLayout layout;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  TIFFGetField(file, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(file, TIFFTAG_IMAGELENGTH, &height);
  layout.width = width;
  layout.height = height;
  layout.bits = field(file, TIFFTAG_BITSPERSAMPLE);
  layout.samples = field(file, TIFFTAG_SAMPLESPERPIXEL);
  layout.planes = field(file, TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && layout.samples > 1;
  layout.orientation = field(file, TIFFTAG_ORIENTATION);
  if (layout.samples < 1 || layout.samples > kMaxSamples) refuse("samples a pixel:", layout.samples, "1 to 8");
  if (field(file, TIFFTAG_SAMPLEFORMAT) != SAMPLEFORMAT_UINT) {
    refuse("sample format", field(file, TIFFTAG_SAMPLEFORMAT), "unsigned integers (1)");
  }
  read_colours(file, layout);
  const bool one = layout.used_samples == 1;
  const bool small = layout.bits == 1 || layout.bits == 2 || layout.bits == 4;
  const bool wide = layout.bits == 16 && layout.colours != TiffColours::Palette;
  if (!(layout.bits == 8 || wide || (one && small))) {
    refuse("bits a sample:", layout.bits, "1, 2, 4, 8 and 16 (grey), 1 to 8 (palette), 8 and 16 (colour)");
  }
  if (layout.samples < layout.used_samples)
    refuse("samples a pixel:", layout.samples, "at least 3 for RGB, 4 for CMYK");
  layout.tiled = TIFFIsTiled(file) != 0;
  std::uint32_t block_width = width;
  std::uint32_t block_height = height;
  if (layout.tiled) {
    TIFFGetField(file, TIFFTAG_TILEWIDTH, &block_width);
    TIFFGetField(file, TIFFTAG_TILELENGTH, &block_height);
  } else {
    TIFFGetFieldDefaulted(file, TIFFTAG_ROWSPERSTRIP, &block_height);
    block_height = std::min(block_height, height);
  }
  if (block_width == 0 || block_height == 0) refuse("rows or columns of a strip or tile:", 0, "1 and more");
  layout.block_width = block_width;
  layout.block_height = block_height;
  return layout;
}

bool read_tiff_samples(TIFF* file, const TiffLayout& layout, std::vector<std::uint8_t>& samples) {
  samples.resize(static_cast<std::size_t>(layout.width * layout.height * layout.used_samples));
  BlockReader reader(file, layout, samples.data());
  const int planes = layout.planes ? layout.used_samples : 1;
  for (int plane = 0; plane < planes; ++plane) {
    for (std::int64_t y = 0; y < layout.height; y += layout.block_height) {
      for (std::int64_t x = 0; x < layout.width; x += layout.block_width) {
        if (!reader.read(block_at(file, layout, x, y, layout.planes ? plane : -1))) return false;
      }
    }
  }
  return true;
}

}  // namespace tutti::trainer
