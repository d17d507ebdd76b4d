#include <gtest/gtest.h>
#include <tiffio.h>
#include <tutti/tests/support/test_data.h>
#include <tutti/tests/trainer/data/image_files.h>
#include <tutti/trainer/data/image/image.h>
#include <tutti/trainer/data/image/resize.h>
#include <zlib.h>

#include <fstream>
#include <sstream>

namespace tutti::trainer {
namespace {

Bytes from_hex(const std::string& digits) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(DecodeImage, GivesPilsPixels) {
  std::ifstream lines(TUTTI_DATA_GOLDEN "/pictures.txt");
  std::string name, file, pixels;
  std::int64_t width = 0, height = 0;
  int count = 0;
  for (; lines >> name >> width >> height >> file >> pixels; ++count) {
    SCOPED_TRACE(name);
    Image image;
    ASSERT_NO_THROW(image = decode_image(from_hex(file)));
    EXPECT_EQ(image.width, width);
    EXPECT_EQ(image.height, height);
    Bytes expected = from_hex(pixels);
    if (name == "tiff-cmyk") {  // libtiff rounds down
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(image.pixels.at(i), expected[i], 1) << i;
      expected = image.pixels;
    }
    EXPECT_EQ(image.pixels, expected);
  }
  EXPECT_EQ(count, 38);
}

TEST(DecodeImage, OfOddSizes) {
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 9}, {9, 1}, {3, 5}, {33, 17}, {257, 3}}) {
    const Image image = pattern(width, height);
    for (const bool interlaced : {false, true}) {
      EXPECT_EQ(decode_image(png_file(image, interlaced)).pixels, image.pixels) << width << " x " << height;
    }
    EXPECT_EQ(decode_image(tiff_file(image, {})).pixels, image.pixels);
    const Image lossy = decode_image(jpeg_file(image));
    EXPECT_EQ(lossy.width, width);
    EXPECT_EQ(lossy.height, height);
  }
}

TEST(DecodeImage, TiffsOfEveryLayout) {
  const Image image = pattern(37, 21);
  for (const bool tiled : {false, true}) {
    for (const bool planes : {false, true}) {
      for (const int bits : {8, 16}) {
        for (const int compression : {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE}) {
          for (const bool big_endian : {false, true}) {
            const TiffForm form{.tiled = tiled,
                                .planes = planes,
                                .bits = bits,
                                .compression = static_cast<std::uint16_t>(compression),
                                .big_endian = big_endian,
                                .private_tags = true,
                                .extra_alpha = bits == 16 ? 2 : 0};
            ASSERT_EQ(decode_image(tiff_file(image, form)).pixels, image.pixels)
                << "tiled " << tiled << " planes " << planes << " bits " << bits << " compression " << compression;
          }
        }
      }
    }
  }
}

TEST(DecodeImage, PremultipliedTiffsAreDividedByAlpha) {
  Image image = pattern(9, 4);
  const Bytes file = tiff_file(image, {.extra_alpha = 1});
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(255 * (value / 2) / 128);
  EXPECT_EQ(decode_image(file).pixels, image.pixels);
}

TEST(DecodeImage, UnusualButRight) {
  Bytes jpeg = jpeg_file(pattern(20, 20));
  const auto whole = decode_image(jpeg).pixels;
  jpeg.insert(jpeg.end(), 100, 'x');  // rubbish after the end
  EXPECT_EQ(decode_image(jpeg).pixels, whole);
}

TEST(Resize, IsPilsToTheLastBit) {
  std::ifstream lines(TUTTI_DATA_GOLDEN "/resized.txt");
  const auto data = test::test_data();
  std::string name;
  std::int64_t width = 0, height = 0;
  std::uint32_t expected = 0;
  int patterns = 0, originals = 0;
  while (lines >> name >> width >> height >> expected) {
    SCOPED_TRACE(name);
    Image image;
    long long w = 0, h = 0;
    if (std::sscanf(name.c_str(), "pattern-%lldx%lld", &w, &h) == 2) {
      image = pattern(w, h);
      ++patterns;
    } else if (data && std::filesystem::exists(*data / "ucmerced-originals" / name)) {
      image = read_image(*data / "ucmerced-originals" / name);
      ++originals;
    } else {
      continue;
    }
    image = resize(std::move(image), width, height);
    ASSERT_EQ(image.pixels.size(), static_cast<std::size_t>(width * height * 3));
    EXPECT_EQ(crc32(0, image.pixels.data(), static_cast<uInt>(image.pixels.size())), expected)
        << width << " x " << height;
  }
  EXPECT_EQ(patterns, 35);
  if (originals == 0) GTEST_SKIP() << "the patterns are right; no test data for the 63 originals: set TUTTI_TEST_DATA";
  EXPECT_EQ(originals, 63);
}

TEST(Resize, TheSameSizeIsTheSamePicture) {
  const Image image = pattern(30, 20);
  EXPECT_EQ(resize(image, 30, 20).pixels, image.pixels);
}

}  // namespace
}  // namespace tutti::trainer
