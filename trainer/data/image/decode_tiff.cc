#include <tiffio.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tutti::trainer {
namespace {

constexpr tmsize_t kMaxBlockBytes = tmsize_t{1} << 29;  // a strip or tile that claims more is refused
constexpr int kMaxSamples = 8;                          // a pixel

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
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxBlockBytes);
  return std::unique_ptr<TIFF, Close>(TIFFClientOpenExt("picture", "rm", &source, read_bytes, write_nothing, seek,
                                                        close_nothing, size_of, nullptr, nullptr, options.get()));
}

int field(TIFF* tiff, std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, tag, &value);
  return value;
}

[[noreturn]] void refuse(const std::string& why) { throw DataError("is a TIFF picture that is not read: " + why); }

void check_kind(TIFF* tiff) {
  const int samples = field(tiff, TIFFTAG_SAMPLESPERPIXEL);
  if (samples < 1 || samples > kMaxSamples) {
    refuse("it has " + std::to_string(samples) + " samples a pixel; read are 1 to " + std::to_string(kMaxSamples));
  }
  const int format = field(tiff, TIFFTAG_SAMPLEFORMAT);
  if (format != SAMPLEFORMAT_UINT) {
    refuse("its samples have format " + std::to_string(format) + "; read are unsigned integers (1)");
  }
  char why[1024] = "";
  if (TIFFRGBAImageOK(tiff, why) != 1) refuse(why);
}

// A palette's high bytes, as PIL takes them; libtiff would scale its 16 bits, which makes most colours darker by one.
void shorten_palette(TIFF* tiff) {
  std::uint16_t* channels[3] = {};
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &channels[0], &channels[1], &channels[2]) != 1) return;
  std::vector<std::uint16_t> high[3];
  for (int c = 0; c < 3; ++c) {
    high[c].assign(channels[c], channels[c] + (std::size_t{1} << field(tiff, TIFFTAG_BITSPERSAMPLE)));
    for (std::uint16_t& value : high[c]) value = static_cast<std::uint16_t>(value >> 8);
  }
  TIFFSetField(tiff, TIFFTAG_COLORMAP, high[0].data(), high[1].data(), high[2].data());
}

// Whether colours were multiplied by their alpha. Those that were not would be by libtiff; it is told that they were.
bool premultiplied(TIFF* tiff) {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds);
  if (count == 0 || kinds == nullptr) return false;
  if (kinds[0] == EXTRASAMPLE_ASSOCALPHA) return true;
  std::vector<std::uint16_t> as_they_are(kinds, kinds + count);
  as_they_are[0] = EXTRASAMPLE_ASSOCALPHA;
  TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(count), as_they_are.data());
  return false;
}

// `divide`: by alpha, with PIL's integers.
void to_rgb(std::uint32_t rgba, bool divide, std::uint8_t* rgb) {
  const std::uint32_t alpha = divide && TIFFGetA(rgba) > 0 ? TIFFGetA(rgba) : 255;
  const std::array<std::uint32_t, 3> colours = {TIFFGetR(rgba), TIFFGetG(rgba), TIFFGetB(rgba)};
  for (const std::uint32_t value : colours) {
    *rgb++ = static_cast<std::uint8_t>(std::min(std::uint32_t{255}, 255 * value / alpha));
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
  check_kind(tiff.get());
  shorten_palette(tiff.get());
  const bool divide = premultiplied(tiff.get());
  const int orientation = field(tiff.get(), TIFFTAG_ORIENTATION);
  std::vector<std::uint32_t> pixels(std::size_t{width} * height);
  // The rows in the file's order: libtiff would turn about half of the orientations only.
  if (TIFFReadRGBAImageOriented(tiff.get(), width, height, pixels.data(), orientation, /*stopOnError=*/1) != 1) {
    throw DataError(std::string("is not a whole TIFF picture: ") +
                    (source.text[0] != '\0' ? source.text : "it ends too early"));
  }
  for (std::size_t i = 0; i < pixels.size(); ++i) to_rgb(pixels[i], divide, image.pixels.data() + 3 * i);
  return oriented(std::move(image), orientation);
}

}  // namespace tutti::trainer
