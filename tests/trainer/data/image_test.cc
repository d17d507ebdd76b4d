#include <gtest/gtest.h>
#include <tiffio.h>
#include <tutti/tests/support/test_data.h>
#include <tutti/tests/trainer/data/image_files.h>
#include <tutti/trainer/data/augmentation.h>
#include <tutti/trainer/data/image/image.h>
#include <zlib.h>

#include <fstream>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

namespace tutti::trainer {
namespace {

using Picture = std::vector<std::uint8_t>;

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

// The identity on bytes, with different numbers for each channel.
std::vector<float> number_table(std::int64_t channels) {
  std::vector<float> table;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (int byte = 0; byte < 256; ++byte) table.push_back(static_cast<float>(1000 * c + byte));
  }
  return table;
}

std::vector<int> placed(const Picture& picture, const PictureSize& size, const Placement& placement) {
  std::vector<float> values(picture.size());
  place_picture(picture.data(), size, placement, number_table(size.channels).data(), values.data());
  return {values.begin(), values.end()};
}

constexpr PictureSize kSmall{.height = 2, .width = 3, .channels = 1};
const Picture kNumbers{1, 2, 3,  //
                       4, 5, 6};

TEST(Augmentation, Flips) {
  EXPECT_EQ(placed(kNumbers, kSmall, {}), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(placed(kNumbers, kSmall, {.flip_horizontal = true}), (std::vector<int>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(placed(kNumbers, kSmall, {.flip_vertical = true}), (std::vector<int>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(placed(kNumbers, kSmall, {.flip_horizontal = true, .flip_vertical = true}),
            (std::vector<int>{6, 5, 4, 3, 2, 1}));
}

TEST(Augmentation, TurnsCounterclockwise) {
  const Picture square{1, 2, 3,  //
                       4, 5, 6,  //
                       7, 8, 9};
  const PictureSize size{.height = 3, .width = 3, .channels = 1};
  EXPECT_EQ(placed(square, size, {.quarter_turns = 1}), (std::vector<int>{3, 6, 9, 2, 5, 8, 1, 4, 7}));
  EXPECT_EQ(placed(square, size, {.quarter_turns = 2}), (std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(placed(square, size, {.quarter_turns = 3}), (std::vector<int>{7, 4, 1, 8, 5, 2, 9, 6, 3}));
  EXPECT_EQ(placed(square, size, {.flip_horizontal = true, .quarter_turns = 1}),
            (std::vector<int>{9, 6, 3, 8, 5, 2, 7, 4, 1}));  // turned, then flipped
}

TEST(Augmentation, ChannelsStayTogether) {
  for (const std::int64_t channels : {2, 3}) {
    const PictureSize size{.height = 1, .width = 2, .channels = channels};
    Picture picture;
    std::vector<int> expected;
    for (std::uint8_t i = 0; i < 2 * channels; ++i) picture.push_back(i);
    for (const std::int64_t pixel : {1, 0}) {
      for (std::int64_t c = 0; c < channels; ++c) expected.push_back(static_cast<int>(1000 * c + pixel * channels + c));
    }
    EXPECT_EQ(placed(picture, size, {.flip_horizontal = true}), expected);
  }
}

TEST(Augmentation, DrawsEveryPlacementAboutEquallyOften) {
  const Augmentation all{.flip_horizontal = true, .flip_vertical = true, .rotate = true};
  std::set<std::tuple<bool, bool, int>> seen;
  int horizontal = 0, quarter = 0;
  constexpr int kDraws = 4000;
  for (std::uint64_t key = 0; key < kDraws; ++key) {
    const Placement p = draw_placement(all, key);
    seen.insert({p.flip_horizontal, p.flip_vertical, p.quarter_turns});
    horizontal += p.flip_horizontal ? 1 : 0;
    quarter += p.quarter_turns == 1 ? 1 : 0;
  }
  EXPECT_EQ(seen.size(), 2u * 2 * 4);
  EXPECT_NEAR(horizontal, kDraws / 2, 200);
  EXPECT_NEAR(quarter, kDraws / 4, 200);
}

TEST(Augmentation, OnePartDoesNotChangeTheDrawsOfAnother) {
  const Augmentation all{.flip_horizontal = true, .flip_vertical = true, .rotate = true};
  for (std::uint64_t key = 0; key < 100; ++key) {
    const Placement whole = draw_placement(all, key);
    EXPECT_EQ(draw_placement({.flip_horizontal = true}, key).flip_horizontal, whole.flip_horizontal);
    EXPECT_EQ(draw_placement({.flip_horizontal = true}, key).quarter_turns, 0);
    EXPECT_EQ(draw_placement({.rotate = true}, key).quarter_turns, whole.quarter_turns);
    EXPECT_EQ(draw_placement({.flip_vertical = true}, key).flip_vertical, whole.flip_vertical);
    EXPECT_FALSE(draw_placement({}, key).flip_horizontal);
  }
}

}  // namespace
}  // namespace tutti::trainer
