#include <cstddef>
#include <cstdio>
// jpeglib.h uses FILE and size_t without including them.
#include <jpeglib.h>
#include <png.h>
#include <tiffio.h>
#include <tutti/tests/trainer/data/image_files.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

// libtiff writes uncompressed tiles of less than 1024 bytes with a byte count of 1024, which it then does not read.
constexpr std::int64_t kTileSide = 32;

void append(Bytes& bytes, std::uint64_t value, int count, bool big_endian) {
  for (int i = 0; i < count; ++i) {
    const int shift = 8 * (big_endian ? count - 1 - i : i);
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
}

void add_png_bytes(png_structp png, png_bytep data, std::size_t nbytes) {
  auto* const bytes = static_cast<Bytes*>(png_get_io_ptr(png));
  bytes->insert(bytes->end(), data, data + nbytes);
}

void png_chunk(Bytes& file, const char* kind, const Bytes& body) {
  append(file, body.size(), 4, true);
  const std::size_t begin = file.size();
  file.insert(file.end(), kind, kind + 4);
  file.insert(file.end(), body.begin(), body.end());
  append(file, crc32(0, file.data() + begin, static_cast<uInt>(file.size() - begin)), 4, true);
}

// One stored sample of pixel (x, y).
std::uint8_t sample_of(const Image& image, const TiffForm& form, std::int64_t x, std::int64_t y, int channel) {
  if (x >= image.width || y >= image.height) return 77;  // beyond the edge of a tile: must not show
  if (channel == 3) return 128;
  const std::uint8_t value = image.pixels[static_cast<std::size_t>((y * image.width + x) * 3 + channel)];
  return form.extra_alpha == 1 ? static_cast<std::uint8_t>(value / 2) : value;
}

Bytes block_of(const Image& image, const TiffForm& form, std::int64_t x0, std::int64_t y0, std::int64_t width,
               std::int64_t height, int first, int last) {
  Bytes block;
  for (std::int64_t y = y0; y < y0 + height; ++y) {
    for (std::int64_t x = x0; x < x0 + width; ++x) {
      for (int c = first; c < last; ++c) {
        const std::uint8_t value = sample_of(image, form, x, y, c);
        // The low byte comes first, in our order; with this one the sample rounds to its high byte.
        if (form.bits == 16) block.push_back(static_cast<std::uint8_t>(value < 128 ? value + 100 : value - 100));
        block.push_back(value);
      }
    }
  }
  return block;
}

void set_tiff_fields(TIFF* tiff, const Image& image, const TiffForm& form) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, static_cast<std::uint32_t>(image.width));
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, static_cast<std::uint32_t>(image.height));
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, form.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, form.extra_alpha > 0 ? 4 : 3);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, form.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, form.planes ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (form.extra_alpha > 0) {
    const auto kind = static_cast<std::uint16_t>(form.extra_alpha);
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &kind);
  }
  if (form.tiled) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, static_cast<std::uint32_t>(kTileSide));
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, static_cast<std::uint32_t>(kTileSide));
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, form.rows_per_strip);
  }
  if (form.private_tags) {
    const std::string xmp = "<x:xmpmeta/>";
    TIFFSetField(tiff, TIFFTAG_XMLPACKET, static_cast<std::uint32_t>(xmp.size()), xmp.data());
    TIFFSetField(tiff, TIFFTAG_PHOTOSHOP, static_cast<std::uint32_t>(xmp.size()), xmp.data());
    static std::string field_name = "Nobody'sTag";
    static const TIFFFieldInfo unknown{65000, -1, -1, TIFF_ASCII, FIELD_CUSTOM, 1, 0, field_name.data()};
    TIFFMergeFieldInfo(tiff, &unknown, 1);
    TIFFSetField(tiff, 65000, xmp.c_str());
  }
}

void write_blocks(TIFF* tiff, const Image& image, const TiffForm& form) {
  const int channels = form.extra_alpha > 0 ? 4 : 3;
  std::uint32_t number = 0;
  for (int plane = 0; plane < (form.planes ? channels : 1); ++plane) {
    const int first = form.planes ? plane : 0;
    const int last = form.planes ? plane + 1 : channels;
    const std::int64_t rows = form.tiled ? kTileSide : form.rows_per_strip;
    const std::int64_t columns = form.tiled ? kTileSide : image.width;
    for (std::int64_t y = 0; y < image.height; y += rows) {
      for (std::int64_t x = 0; x < image.width; x += columns, ++number) {
        const std::int64_t height = form.tiled ? rows : std::min(rows, image.height - y);
        Bytes block = block_of(image, form, x, y, columns, height, first, last);
        const auto nbytes = static_cast<tmsize_t>(block.size());
        const tmsize_t done = form.tiled ? TIFFWriteEncodedTile(tiff, number, block.data(), nbytes)
                                         : TIFFWriteEncodedStrip(tiff, number, block.data(), nbytes);
        if (done != nbytes) throw std::runtime_error("libtiff did not write a block");
      }
    }
  }
}

}  // namespace

Image pattern(std::int64_t width, std::int64_t height) {
  Image image = Image::of_size(width, height);
  auto* pixel = image.pixels.data();
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        *pixel++ = static_cast<std::uint8_t>((x * x * 7 + y * 31 * (c + 1) + x * y * 3 + c * 85) % 256);
      }
    }
  }
  return image;
}

Bytes png_file(const Image& image, bool interlaced) {
  Bytes bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, add_png_bytes, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
               PNG_COLOR_TYPE_RGB, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (std::int64_t y = 0; y < image.height; ++y) png_write_row(png, image.pixels.data() + y * image.width * 3);
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

Bytes jpeg_file(const Image& image, int quality) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    Bytes row(image.pixels.begin() + 3 * image.width * jpeg.next_scanline,
              image.pixels.begin() + 3 * image.width * (jpeg.next_scanline + 1));
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&jpeg, &rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  Bytes bytes(memory, memory + size);
  std::free(memory);
  jpeg_destroy_compress(&jpeg);
  return bytes;
}

Bytes tiff_file(const Image& image, const TiffForm& form) {
  const TemporaryFolder folder;
  const std::string path = folder / "made.tif";
  TIFF* const tiff = TIFFOpen(path.c_str(), form.big_endian ? "wb" : "wl");
  if (tiff == nullptr) throw std::runtime_error("libtiff cannot create " + path);
  set_tiff_fields(tiff, image, form);
  write_blocks(tiff, image, form);
  TIFFClose(tiff);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Bytes png_header(std::uint32_t width, std::uint32_t height) {
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Bytes header;
  append(header, width, 4, true);
  append(header, height, 4, true);
  header.insert(header.end(), {8, 2, 0, 0, 0});
  png_chunk(file, "IHDR", header);
  png_chunk(file, "IDAT", {0x78, 0x9c, 0x03, 0, 0, 0, 0, 1});
  png_chunk(file, "IEND", {});
  return file;
}

Bytes jpeg_header(std::uint16_t width, std::uint16_t height) {
  Bytes file = jpeg_file(pattern(8, 8));
  for (std::size_t i = 0; i + 8 < file.size(); ++i) {
    if (file[i] != 0xff || file[i + 1] != 0xc0) continue;  // start of frame
    for (const auto& [place, value] : {std::pair<std::size_t, int>{i + 5, height}, {i + 7, width}}) {
      file[place] = static_cast<std::uint8_t>(value >> 8);
      file[place + 1] = static_cast<std::uint8_t>(value);
    }
    return file;
  }
  throw std::runtime_error("no start of frame in a JPEG");
}

Bytes tiff_header(std::uint32_t width, std::uint32_t height) {
  Bytes file{'I', 'I', '*', 0, 8, 0, 0, 0};
  const std::vector<std::array<std::uint32_t, 2>> fields = {
      {TIFFTAG_IMAGEWIDTH, width},  {TIFFTAG_IMAGELENGTH, height},  {TIFFTAG_BITSPERSAMPLE, 8},
      {TIFFTAG_COMPRESSION, 1},     {TIFFTAG_PHOTOMETRIC, 1},       {TIFFTAG_STRIPOFFSETS, 8},
      {TIFFTAG_SAMPLESPERPIXEL, 1}, {TIFFTAG_ROWSPERSTRIP, height}, {TIFFTAG_STRIPBYTECOUNTS, 16},
  };
  append(file, fields.size(), 2, false);
  for (const auto& [tag, value] : fields) {
    append(file, tag, 2, false);
    append(file, 4, 2, false);  // LONG
    append(file, 1, 4, false);
    append(file, value, 4, false);
  }
  append(file, 0, 4, false);
  return file;
}

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

Bytes cut(Bytes bytes, std::size_t count) {
  bytes.resize(std::min(count, bytes.size()));
  return bytes;
}

}  // namespace tutti::trainer
