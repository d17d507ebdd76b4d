#include <gtest/gtest.h>
#include <tutti/tests/trainer/data/data_files.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/idx.h>

namespace tutti::trainer {
namespace {

class Idx : public ::testing::Test {
 protected:
  // The sentence that reading `bytes` as images gives, without the folder's name.
  std::string images_error(const std::string& file, const Bytes& bytes) {
    return without_folder(error_of([&] { read_idx_images(write_file(folder_ / file, bytes), 28, 28); }));
  }
  std::string labels_error(const std::string& file, const Bytes& bytes, std::int64_t count) {
    return without_folder(error_of([&] { read_idx_labels(write_file(folder_ / file, bytes), count, 10); }));
  }
  std::string without_folder(std::string text) const {
    const std::string prefix = folder_.path().string() + "/";
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }

  TemporaryFolder folder_;
};

TEST_F(Idx, ReadsImagesPlainAndPacked) {
  const Bytes bytes = image_bytes(3);
  for (const auto& path : {write_file(folder_ / "images", bytes), write_file(folder_ / "images.gz", gzip(bytes))}) {
    const tensor::Tensor images = read_idx_images(path, 28, 28);
    ASSERT_EQ(images.shape(), (tensor::Shape{3, 28, 28, 1})) << path;
    ASSERT_EQ(images.dtype(), tensor::DType::UInt8);
    EXPECT_TRUE(std::equal(bytes.begin() + 16, bytes.end(), images.data<std::uint8_t>())) << path;
  }
}

TEST_F(Idx, ReadsLabels) {
  const auto path = write_file(folder_ / "labels.gz", gzip(label_bytes({5, 0, 9})));
  const tensor::Tensor labels = read_idx_labels(path, 3, 10);
  ASSERT_EQ(labels.shape(), (tensor::Shape{3}));
  EXPECT_EQ(labels.data<std::int64_t>()[0], 5);
  EXPECT_EQ(labels.data<std::int64_t>()[2], 9);
}

TEST_F(Idx, ReadsAnEmptySet) {
  EXPECT_EQ(read_idx_images(write_file(folder_ / "images", image_bytes(0)), 28, 28).numel(), 0);
  EXPECT_EQ(read_idx_labels(write_file(folder_ / "labels.gz", gzip(label_bytes({}))), 0, 10).numel(), 0);
}

// gzip allows members in a row; some download tools make such files.
TEST_F(Idx, ReadsAGzipFileOfSeveralMembers) {
  const Bytes bytes = image_bytes(2);
  Bytes packed = gzip({bytes.begin(), bytes.begin() + 500});
  const Bytes rest = gzip({bytes.begin() + 500, bytes.end()});
  packed.insert(packed.end(), rest.begin(), rest.end());
  const auto images = read_idx_images(write_file(folder_ / "images.gz", packed), 28, 28);
  EXPECT_TRUE(std::equal(bytes.begin() + 16, bytes.end(), images.data<std::uint8_t>()));
}

TEST_F(Idx, ATruncatedGzipFileIsNamedAsOne) {
  const Bytes packed = gzip(image_bytes(3));
  for (const std::size_t cut : {packed.size() - 1, packed.size() - 9, packed.size() / 2, std::size_t{12}}) {
    const Bytes bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(cut));
    EXPECT_EQ(images_error("images.gz", bytes), "images.gz: the gzip file is cut short: it ends after " +
                                                    std::to_string(cut) +
                                                    " bytes in the middle of its data; fetch it again");
  }
}

TEST_F(Idx, ADamagedGzipFileIsNamedAsOne) {
  Bytes packed = gzip(image_bytes(3));
  packed[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_EQ(images_error("images.gz", packed),
            "images.gz: the gzip data is damaged (incorrect data check); fetch the file again");
  packed = gzip(image_bytes(3));
  packed.push_back('x');
  packed.push_back('y');
  EXPECT_EQ(images_error("images.gz", packed),
            "images.gz: the gzip data is damaged (incorrect header check); fetch the file again");
}

// Whatever single byte is wrong, the answer is the right content or a DataError that names the file.
TEST_F(Idx, NoFlippedByteGoesUnnoticed) {
  const Bytes content = image_bytes(2);
  const Bytes good = gzip(content);
  const auto path = folder_ / "images.gz";
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bytes = good;
    bytes[i] ^= 0xff;
    write_file(path, bytes);
    try {
      const auto images = read_idx_images(path, 28, 28);
      // Only in the gzip header's fields for time, flags and system may a byte differ.
      EXPECT_LT(i, 10u) << "byte " << i;
      EXPECT_TRUE(std::equal(content.begin() + 16, content.end(), images.data<std::uint8_t>())) << "byte " << i;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("images.gz: "), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GE(refused, static_cast<int>(good.size()) - 10);
}

TEST_F(Idx, WhatAFileHoldsCountsNotItsName) {
  const Bytes bytes = image_bytes(3), packed = gzip(bytes);
  Bytes padded = packed;
  padded.resize(packed.size() + 300'000);
  for (const auto& path : {write_file(folder_ / "images.gz", bytes), write_file(folder_ / "images", packed),
                           write_file(folder_ / "padded.gz", padded)})
    EXPECT_EQ(read_idx_images(path, 28, 28).numel(), 3 * 28 * 28) << path;
  padded.insert(padded.end(), {7, 7});
  EXPECT_EQ(images_error("images.gz", padded).find("images.gz: the gzip data is damaged ("), 0u);
  const std::string page = "<!DOCTYPE html>403";
  EXPECT_EQ(images_error("images.gz", Bytes(page.begin(), page.end())),
            "images.gz: field 'magic' is 0x3c21444f, expected 0x00000803 (unsigned bytes, 3 dimensions: images)");
  EXPECT_EQ(images_error("images.gz", {}),
            "images.gz: ends inside its header: 0 of the 4 bytes of field 'magic' are there");
}

TEST_F(Idx, WrongHeadersNameFieldFoundAndExpected) {
  EXPECT_EQ(images_error("images", label_bytes({1, 2})),
            "images: field 'magic' is 0x00000801, expected 0x00000803 (unsigned bytes, 3 dimensions: images)");
  EXPECT_EQ(labels_error("labels", image_bytes(1), 1),
            "labels: field 'magic' is 0x00000803, expected 0x00000801 (unsigned bytes, 1 dimension: labels)");
  EXPECT_EQ(images_error("images", idx_bytes({2, 32, 28}, Bytes(2 * 32 * 28))),
            "images: fields 'extent 1' and 'extent 2' are 32 x 28, expected images of 28 x 28");
  EXPECT_EQ(images_error("images", {0, 0, 8}),
            "images: ends inside its header: 3 of the 4 bytes of field 'magic' are there");
  EXPECT_EQ(images_error("images", {0, 0, 8, 3, 0, 0}),
            "images: ends inside its header: 2 of the 4 bytes of field 'extent 0' are there");
}

TEST_F(Idx, WrongLengthsNameFoundAndExpected) {
  Bytes bytes = image_bytes(2);
  bytes.pop_back();
  EXPECT_EQ(images_error("images", bytes),
            "images: holds 1567 bytes of elements, expected 1568 by its header; the file is cut short");
  bytes = image_bytes(2);
  bytes.push_back(0);
  EXPECT_EQ(images_error("images", bytes),
            "images: has bytes after the 1568 bytes of elements that its header announces");
  EXPECT_EQ(labels_error("labels", label_bytes({1, 2, 3}), 4),
            "labels: field 'extent 0' is 3 labels, expected 4, one for each image");
}

// A header that lies about its size must not make us take memory for it.
TEST_F(Idx, AnAbsurdCountIsRefusedBeforeMemoryIsTaken) {
  Bytes bytes = idx_bytes({0xffffffffU, 28, 28}, Bytes(100));
  EXPECT_EQ(
      images_error("images", bytes),
      "images: field 'extent 0' says 4294967295 images of 784 bytes, but a file of its size holds at most 116 bytes");
  test::expect_parts(images_error("images.gz", gzip(bytes)), {"says 4294967295 images of 784 bytes"});
  test::expect_parts(labels_error("labels", idx_bytes({0xffffffffU}, {1}), 0xffffffffLL), {"says 4294967295 labels"});
}

TEST_F(Idx, ALabelOutsideTheClassesIsNamed) {
  EXPECT_EQ(labels_error("labels", label_bytes({1, 9, 10, 3}), 4), "labels: label 2 is 10, expected 0 to 9");
}

TEST_F(Idx, MissingFilesAndFoldersAreNamed) {
  EXPECT_EQ(without_folder(error_of([&] { read_idx_images(folder_ / "none", 28, 28); })),
            "none: cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { read_idx_images(folder_.path(), 28, 28); }),
            folder_.path().string() + ": is a directory, expected a file");
}

}  // namespace
}  // namespace tutti::trainer
