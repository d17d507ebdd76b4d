#include <tiffio.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/decoders.h>
#include <tutti/trainer/data/image/tiff_blocks.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tutti::trainer {
namespace {

// The file in memory, as libtiff sees it, and the first error that it reported.
struct Source {
  std::span<const std::uint8_t> file;
  std::uint64_t position = 0;
  char text[200] = "";
};

// What libtiff calls.
tmsize_t read_bytes(thandle_t handle, void* target, tmsize_t nbytes) {
  auto* const source = static_cast<Source*>(handle);
  if (nbytes < 0 || source->position >= source->file.size()) return 0;
  const std::size_t count =
      std::min(static_cast<std::size_t>(nbytes), source->file.size() - static_cast<std::size_t>(source->position));
  std::memcpy(target, source->file.data() + source->position, count);
  source->position += count;
  return static_cast<tmsize_t>(count);
}
tmsize_t write_nothing(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int origin) {
  auto* const source = static_cast<Source*>(handle);
  if (origin == SEEK_CUR) offset += source->position;
  if (origin == SEEK_END) offset += source->file.size();
  return source->position = offset;
}
int close_nothing(thandle_t) { return 0; }
toff_t size_of(thandle_t handle) { return static_cast<Source*>(handle)->file.size(); }
int on_error(TIFF*, void* data, const char*, const char* format, va_list values) {
  auto* const source = static_cast<Source*>(data);
  if (source->text[0] == '\0') std::vsnprintf(source->text, sizeof source->text, format, values);
  return 1;  // told: libtiff need not print it
}
int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct Close {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

std::unique_ptr<TIFF, Close> open(Source& source) {
  const std::unique_ptr<TIFFOpenOptions, Close> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) throw DataError("libtiff could not be started (no memory)");
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, &source);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxTiffBlockBytes);
  return std::unique_ptr<TIFF, Close>(TIFFClientOpenExt("picture", "rm", &source, read_bytes, write_nothing, seek,
                                                        close_nothing, size_of, nullptr, nullptr, options.get()));
}

// Red, green and blue of the colour map: the high bytes, as PIL takes them.
std::vector<std::uint8_t> palette_of(TIFF* tiff, int bits) {
  std::uint16_t* channels[3] = {};
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &channels[0], &channels[1], &channels[2]) != 1) {
    throw DataError("is a TIFF picture with a palette, but the palette is missing");
  }
  std::vector<std::uint8_t> palette;
  for (int i = 0; i < 1 << bits; ++i) {
    for (const std::uint16_t* channel : channels) palette.push_back(static_cast<std::uint8_t>(channel[i] >> 8));
  }
  return palette;
}

void write_grey(std::uint8_t value, const TiffLayout& layout, std::uint8_t* rgb) {
  const int most = layout.bits >= 8 ? 255 : (1 << layout.bits) - 1;
  const int scaled = value * 255 / most;
  rgb[0] = rgb[1] = rgb[2] = static_cast<std::uint8_t>(layout.white_is_zero ? 255 - scaled : scaled);
}

// Colours that were multiplied by their alpha, divided by it: PIL's integers.
void write_divided(const std::uint8_t* rgba, std::uint8_t* rgb) {
  for (int c = 0; c < 3; ++c) {
    const int alpha = rgba[3];
    const int value = alpha == 0 ? rgba[c] : std::min(255, 255 * rgba[c] / alpha);
    rgb[c] = static_cast<std::uint8_t>(value);
  }
}

void to_rgb(const std::vector<std::uint8_t>& samples, const TiffLayout& layout,
            const std::vector<std::uint8_t>& palette, Image& image) {
  const auto pixels = static_cast<std::size_t>(image.width * image.height);
  const auto step = static_cast<std::size_t>(layout.used_samples);
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* const from = samples.data() + i * step;
    std::uint8_t* const rgb = image.pixels.data() + 3 * i;
    switch (layout.colours) {
      case TiffColours::Grey:
        write_grey(*from, layout, rgb);
        break;
      case TiffColours::Palette:
        std::copy_n(palette.data() + std::size_t{3} * *from, 3, rgb);
        break;
      case TiffColours::Rgb:
        std::copy_n(from, 3, rgb);
        break;
      case TiffColours::DividedRgb:
        write_divided(from, rgb);
        break;
      case TiffColours::Cmyk:
        cmyk_to_rgb(from, rgb);
        break;
    }
  }
}

// `orientation` says where the file's first row and column belong; 1: top left.
Image oriented(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool transpose = orientation >= 5;
  Image result = transpose ? Image::of_size(image.height, image.width) : Image::of_size(image.width, image.height);
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (std::int64_t y = 0; y < result.height; ++y) {
    for (std::int64_t x = 0; x < result.width; ++x) {
      std::int64_t row = transpose ? x : y;
      std::int64_t column = transpose ? y : x;
      if (from_below) row = image.height - 1 - row;
      if (from_right) column = image.width - 1 - column;
      std::copy_n(image.pixels.begin() + 3 * (row * image.width + column), 3,
                  result.pixels.begin() + 3 * (y * result.width + x));
    }
  }
  return result;
}

}  // namespace

Image decode_tiff(std::span<const std::uint8_t> file) {
  Source source{.file = file};
  const auto tiff = open(source);
  if (tiff == nullptr) throw DataError(std::string("is not a whole TIFF picture: ") + source.text);
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  Image image = Image::of_size(width, height);
  const TiffLayout layout = tiff_layout(tiff.get());
  const auto palette =
      layout.colours == TiffColours::Palette ? palette_of(tiff.get(), layout.bits) : std::vector<std::uint8_t>();
  std::vector<std::uint8_t> samples;
  if (!read_tiff_samples(tiff.get(), layout, samples)) {
    throw DataError(std::string("is not a whole TIFF picture: ") +
                    (source.text[0] != '\0' ? source.text : "it ends too early"));
  }
  to_rgb(samples, layout, palette, image);
  return oriented(std::move(image), layout.orientation);
}

}  // namespace tutti::trainer
