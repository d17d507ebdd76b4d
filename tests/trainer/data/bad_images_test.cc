// Files that are damaged, cut or lie about themselves: an error with a reason, never a crash and no word of a
// library's.
#include <gtest/gtest.h>
#include <tiffio.h>
#include <tutti/tests/trainer/data/image_files.h>
#include <tutti/trainer/data/data_error.h>

#include <random>

namespace tutti::trainer {
namespace {

std::string refusal(const Bytes& file) {
  return error_of([&] { decode_image(file); });
}

void expect_refusal(const Bytes& file, const std::string& expected) {
  const std::string text = refusal(file);
  EXPECT_NE(text.find(expected), std::string::npos) << "found: " << text << "\nexpected: " << expected;
}

TEST(BadImages, WhatIsNoPicture) {
  EXPECT_EQ(refusal({}), "is empty (0 bytes)");
  EXPECT_EQ(refusal(bytes_of("hello")), "is not a PNG, JPEG or TIFF picture: it begins with the bytes 68 65 6c 6c");
  EXPECT_EQ(refusal({0x47}), "is not a PNG, JPEG or TIFF picture: it begins with the bytes 47");
  EXPECT_NE(refusal(cut(png_header(4, 4), 8)), "");
  EXPECT_NE(refusal({0xff, 0xd8, 0xff}), "");
  EXPECT_NE(refusal({'I', 'I', '*', 0}), "");
}

TEST(BadImages, TwentyThousandPixelsAreTooMany) {
  const std::string limit = "its header claims 20000 x 20000 pixels, more than the limit of 67108864 (8192 x 8192)";
  expect_refusal(png_header(20000, 20000), limit);
  expect_refusal(jpeg_header(20000, 20000), limit);
  expect_refusal(tiff_header(20000, 20000), limit);
  expect_refusal(png_header(0x7fffffff, 0x7fffffff), "more than the limit");
  expect_refusal(tiff_header(100000, 100000), "more than the limit");
  expect_refusal(tiff_header(0xffffffff, 0xffffffff), "is not a whole TIFF picture: ");  // libtiff's own limits
  expect_refusal(tiff_header(0, 7), "is not a whole TIFF picture: ");
  EXPECT_NE(refusal(png_header(0, 7)), "");
  EXPECT_NE(refusal(jpeg_header(0, 7)), "");
}

TEST(BadImages, AHeaderWithoutItsPixels) {
  expect_refusal(png_header(300, 200), "is not a whole PNG picture");
  expect_refusal(png_header(8000, 8000), "claims 8000 x 8000 pixels, more than its 65 bytes can hold");
  expect_refusal(jpeg_header(300, 200), "is not a whole JPEG picture");
  expect_refusal(tiff_header(300, 200), "is not a whole TIFF picture");
}

TEST(BadImages, CutAnywhere) {
  const Image image = pattern(40, 30);
  for (const Bytes& file : {png_file(image), png_file(image, true), jpeg_file(image), tiff_file(image, {}),
                            tiff_file(image, {.tiled = true, .compression = COMPRESSION_LZW})}) {
    const std::vector<std::uint8_t> whole = decode_image(file).pixels;
    const std::size_t step = std::max<std::size_t>(1, file.size() / 300);
    for (std::size_t size = 0; size < file.size(); size += step) {
      Image found;
      const std::string text = error_of([&] { found = decode_image(cut(file, size)); });
      // libtiff writes its directory last; a byte less may be padding. What is accepted must be the whole picture.
      if (text.empty()) {
        EXPECT_EQ(found.pixels, whole) << size << " of " << file.size() << " bytes";
      }
    }
    EXPECT_NE(refusal(cut(file, file.size() / 2)), "");
  }
  expect_refusal(cut(jpeg_file(image), jpeg_file(image).size() - 2), "is not a whole JPEG picture: Premature end");
  expect_refusal(cut(png_file(image), png_file(image).size() - 12), "the file ends too early");
}

TEST(BadImages, DamageIsAnErrorOrAPictureButNeverACrash) {
  const Image image = pattern(24, 24);
  std::mt19937 random(7);
  for (const Bytes& file :
       {png_file(image), jpeg_file(image), tiff_file(image, {}), tiff_file(image, {.tiled = true, .planes = true}),
        tiff_file(image, {.bits = 16, .compression = COMPRESSION_ADOBE_DEFLATE})}) {
    int refused = 0;
    for (int round = 0; round < 400; ++round) {
      Bytes damaged = file;
      for (int change = 0; change < 1 + round % 4; ++change) {
        damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
      }
      try {
        decode_image(damaged);
      } catch (const DataError& error) {
        ++refused;
        EXPECT_STRNE(error.what(), "");
      }
    }
    EXPECT_GT(refused, 0);
  }
}

TEST(BadImages, APngsDamageIsFoundByItsChecksums) {
  const Bytes file = png_file(pattern(24, 24));
  for (std::size_t i = 8; i < file.size(); i += 7) {
    Bytes damaged = file;
    damaged[i] ^= 0x40;
    EXPECT_NE(refusal(damaged), "") << "byte " << i;
  }
}

TEST(BadImages, NothingIsPrinted) {
  testing::internal::CaptureStderr();
  const Image image = pattern(24, 24);
  for (Bytes file : {png_file(image), jpeg_file(image), tiff_file(image, {.private_tags = true})}) {
    decode_image(file);
    refusal(cut(file, file.size() / 2));
    for (std::size_t i = file.size() / 3; i < file.size(); i += 11) file[i] ^= 0xff;
    refusal(file);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(BadImages, KindsThatAreNotRead) {
  Bytes lab = tiff_file(pattern(8, 8), {});
  for (std::size_t i = 0; i + 12 <= lab.size(); ++i) {  // photometric interpretation: 2 -> 9, ICC Lab
    if (lab[i] == 0x06 && lab[i + 1] == 0x01 && lab[i + 2] == 3 && lab[i + 8] == 2) lab[i + 8] = 9;
  }
  expect_refusal(lab, "is a TIFF picture that is not read: ");
}

TEST(BadImages, AFileIsNamed) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "notes.png", bytes_of("hello"));
  EXPECT_EQ(error_of([&] { read_image(path); }),
            path + ": is not a PNG, JPEG or TIFF picture: it begins with the bytes 68 65 6c 6c");
  const std::string none = folder / "none.png";
  EXPECT_EQ(error_of([&] { read_image(none); }), none + ": cannot be read: No such file or directory");
}

}  // namespace
}  // namespace tutti::trainer
