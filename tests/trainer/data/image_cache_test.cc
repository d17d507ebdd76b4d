#include <gtest/gtest.h>
#include <tutti/tests/trainer/data/image_files.h>
#include <tutti/trainer/data/image/folder_data.h>
#include <tutti/trainer/data/image/image_cache.h>

#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

class ImageCache : public testing::Test {
 protected:
  ImageCache() {
    for (const char* name : {"a/0.png", "a/4.png", "b/1.png", "b/9.png"}) {
      write_file(folder_ / "set" / name, png_file(pattern(9, name[2] - '0' + 5)));
    }
    options_ = {.folder = folder_ / "set", .size = 8, .cache_dir = folder_ / "cache"};
  }

  fs::path file() const { return image_cache_file(options_.cache_dir, list_image_folder(options_.folder), 8); }
  static Bytes content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Bytes pixels(const FolderData& data) {
    const auto* const train = data.train.images.data<std::uint8_t>();
    const auto* const test = data.test.images.data<std::uint8_t>();
    Bytes bytes(train, train + data.train.images.nbytes());
    bytes.insert(bytes.end(), test, test + data.test.images.nbytes());
    return bytes;
  }
  // Another first pixel in the cache's pictures and a checksum that fits: it shows who believes the cache.
  void mark_cache() {
    DecodedFolder decoded = *read_image_cache(file(), list_image_folder(options_.folder), 8);
    decoded.images.data<std::uint8_t>()[0] ^= 0xff;
    write_image_cache(file(), list_image_folder(options_.folder), 8, decoded);
  }

  TemporaryFolder folder_;
  FolderOptions options_;
};

TEST_F(ImageCache, IsWrittenOnceAndUsed) {
  const FolderData first = load_image_folder(options_);
  EXPECT_EQ(first.cache_note, "");
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_EQ(pixels(load_image_folder(options_)), pixels(first));
  mark_cache();
  EXPECT_NE(pixels(load_image_folder(options_)), pixels(first));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "cache"), {}), 1);
}

TEST_F(ImageCache, WhatWasMadeFromOtherFilesIsMadeAgain) {
  const FolderData first = load_image_folder(options_);
  mark_cache();
  const auto before = fs::last_write_time(folder_ / "set/a/0.png");
  fs::last_write_time(folder_ / "set/a/0.png", before + std::chrono::seconds(1));
  EXPECT_EQ(pixels(load_image_folder(options_)), pixels(first));
  mark_cache();
  write_file(folder_ / "set/b/2.png", png_file(pattern(5, 5)));
  const FolderData more = load_image_folder(options_);
  EXPECT_EQ(more.train.count(), 3);
  EXPECT_EQ(more.train.images.data<std::uint8_t>()[0], first.train.images.data<std::uint8_t>()[0]);
  EXPECT_EQ(more.cache_note, "");
  options_.size = 6;  // another file
  load_image_folder(options_);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "cache"), {}), 2);
}

TEST_F(ImageCache, DamageAnywhereIsNoticedNamedAndMended) {
  const Bytes expected = pixels(load_image_folder(options_));
  const Bytes whole = content(file());
  for (std::size_t i = 0; i < whole.size() + 2; i += whole.size() / 97) {
    Bytes damaged = whole;
    i < whole.size() ? static_cast<void>(damaged[i] ^= 1) : damaged.push_back(0);
    write_file(file(), damaged);
    const FolderData data = load_image_folder(options_);
    EXPECT_EQ(pixels(data), expected) << "byte " << i;
    EXPECT_EQ(content(file()), whole) << "byte " << i;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    write_file(file(), cut(whole, size));
    const FolderData data = load_image_folder(options_);
    EXPECT_EQ(pixels(data), expected);
    EXPECT_EQ(content(file()), whole);
  }
  Bytes damaged = whole;
  damaged[whole.size() - 40] ^= 1;
  write_file(file(), damaged);
  EXPECT_EQ(load_image_folder(options_).cache_note,
            file().string() +
                ": this cache of decoded pictures is damaged: its checksum does not fit; the pictures are decoded "
                "again");
  write_file(file(), cut(whole, whole.size() - 1));
  test::expect_parts(load_image_folder(options_).cache_note, {"bytes instead of"});
}

TEST_F(ImageCache, PicturesThatWereBadAreTriedAgain) {
  const Bytes good = content(folder_ / "set/b/1.png");
  const auto time = fs::last_write_time(folder_ / "set/b/1.png");
  const auto replace = [&](Bytes bytes) {  // the same size and time: the cache cannot tell
    bytes.resize(good.size());
    write_file(folder_ / "set/b/1.png", bytes);
    fs::last_write_time(folder_ / "set/b/1.png", time);
  };
  const Bytes expected = pixels(load_image_folder({.folder = options_.folder, .size = 8}));
  replace(bytes_of("hello"));
  EXPECT_NE(error_of([&] { load_image_folder(options_); }), "");
  EXPECT_FALSE(fs::exists(file()));
  options_.skip_bad = true;
  write_file(folder_ / "set/b/2.png", good);
  EXPECT_EQ(load_image_folder(options_).skipped.size(), 1u);
  EXPECT_EQ(load_image_folder(options_).skipped.size(), 1u);
  replace(good);
  EXPECT_EQ(load_image_folder(options_).skipped.size(), 0u);
  fs::remove(folder_ / "set/b/2.png");
  EXPECT_EQ(pixels(load_image_folder(options_)), expected);
}

TEST_F(ImageCache, ACacheThatCannotBeWrittenIsANote) {
  write_file(folder_ / "file", {});
  options_.cache_dir = folder_ / "file/cache";
  const FolderData data = load_image_folder(options_);
  EXPECT_EQ(data.train.count(), 2);
  test::expect_parts(data.cache_note, {(folder_ / "file/cache").string()});
}

TEST_F(ImageCache, ManyMayReadAndWriteAtOnce) {
  const Bytes expected = pixels(load_image_folder({.folder = options_.folder, .size = 8}));
  std::vector<std::string> notes(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < notes.size(); ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < 20; ++round) {
          if (i == 0) fs::remove(file());
          const FolderData data = load_image_folder(options_);
          if (pixels(data) != expected || !data.cache_note.empty()) notes[i] = "wrong: " + data.cache_note;
        }
      });
    }
  }
  EXPECT_EQ(notes, std::vector<std::string>(8));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "cache"), {}), 1);
}

TEST_F(ImageCache, LeftoversOfYesterdayAreRemoved) {
  const fs::path old = write_file(folder_ / "cache/.x.tuttiimg.tmp-abc", {});
  const fs::path young = write_file(folder_ / "cache/.y.tuttiimg.tmp-abc", {});
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(25));
  load_image_folder(options_);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
}

}  // namespace
}  // namespace tutti::trainer
