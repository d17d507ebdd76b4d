#include <gtest/gtest.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tests/support/test_data.h>
#include <tutti/tests/trainer/data/image_files.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/folder_data.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Two classes of ten pictures of different sizes and formats; number n of class c is pattern(20 + n, 10 + 5 c).
void write_set(const fs::path& folder) {
  for (int c = 0; c < 2; ++c) {
    for (int n = 0; n < 10; ++n) {
      const Image image = pattern(20 + n, 10 + 5 * c);
      const std::string stem = (c == 0 ? "beach/beach0" : "river/r-") + std::to_string(n);
      if (n % 2 == 0) write_file(folder / (stem + ".PNG"), png_file(image));
      if (n % 2 == 1) write_file(folder / (stem + ".tiff"), tiff_file(image, {}));
    }
  }
}

Words test_paths(const ImageFolder& folder, const std::vector<bool>& test) {
  Words paths;
  for (std::size_t i = 0; i < test.size(); ++i) {
    if (test[i]) paths.push_back(folder.files[i].path);
  }
  return paths;
}

TEST(ImageFolder, ListsClassesAndFilesInOrderAndWhatItIgnores) {
  const TemporaryFolder folder;
  write_set(folder.path());
  write_file(folder / ".hidden/a.png", {});
  write_file(folder / "beach/.beach.png.swp", {});
  write_file(folder / "beach/Thumbs.db", {});
  write_file(folder / "README", {});
  write_file(folder / "__MACOSX/._a.png", {});
  write_file(folder / "Zoo/a.JpEg", {});
  fs::create_directory(folder / "beach/more.png");
  const ImageFolder found = list_image_folder(folder.path());
  EXPECT_EQ(found.classes, (Words{"Zoo", "beach", "river"}));
  ASSERT_EQ(found.files.size(), 21u);
  EXPECT_EQ(found.files[0].path, "Zoo/a.JpEg");
  EXPECT_EQ(found.files[1].path, "beach/beach00.PNG");
  EXPECT_EQ(found.files[2].path, "beach/beach01.tiff");
  EXPECT_EQ(found.files[20].path, "river/r-9.tiff");
  EXPECT_EQ(found.files[20].label, 2);
  EXPECT_EQ(found.files[1].size, fs::file_size(folder / "beach/beach00.PNG"));
  EXPECT_EQ(found.ignored, (Words{"README", "beach/Thumbs.db", "beach/more.png"}));
}

TEST(ImageFolder, WhatCannotBeOneIsNamed) {
  const TemporaryFolder folder;
  const auto refusal = [](const fs::path& path) { return error_of([&] { list_image_folder(path); }); };
  EXPECT_EQ(refusal(folder / "none"), (folder / "none").string() + ": no such folder");
  write_file(folder / "file", {});
  EXPECT_EQ(refusal(folder / "file"),
            (folder / "file").string() + ": is not a folder; expected one with a folder for each class");
  EXPECT_EQ(refusal(folder.path()),
            folder.path().string() + ": holds no folders; expected one for each class, with that class's pictures");
  write_file(folder / "beach/a.png", {});
  fs::create_directory(folder / "empty");
  EXPECT_EQ(refusal(folder.path()),
            (folder / "empty").string() +
                ": this class has no pictures (.png, .jpg, .jpeg, .tif, .tiff); add some or remove the folder");
}

TEST(ImageFolder, FoldersOfSplitsAreExplained) {
  const TemporaryFolder folder;
  write_set(folder / "train");
  write_set(folder / "val");
  EXPECT_EQ(error_of([&] { list_image_folder(folder.path()); }),
            folder.path().string() +
                ": holds train/ and val/ instead of a folder for each class; put each class's "
                "pictures into one folder, and list those of val/ in a file for --test-list");
}

TEST(ImageFolder, IsFoundWhereItIsLookedFor) {
  const TemporaryFolder folder;
  const DataSearch search{.explicit_path = {},
                          .tutti_data = folder / "set",
                          .working_directory = folder / "work",
                          .cache_home = folder / "cache"};
  EXPECT_EQ(find_image_folder(search), std::nullopt);
  write_file(folder / "cache/tutti/mercer/beach/a.png", {});
  EXPECT_EQ(find_image_folder(search), folder / "cache/tutti/mercer");
  write_file(folder / "work/data/mercer/UCMerced_LandUse/Images/beach/a.png", {});
  EXPECT_EQ(find_image_folder(search), folder / "work/data/mercer/UCMerced_LandUse/Images");
  write_file(folder / "set/mercer/beach/a.png", {});
  EXPECT_EQ(find_image_folder(search), folder / "set/mercer");
  EXPECT_EQ(find_image_folder({.explicit_path = folder / "cache/tutti/mercer"}), folder / "cache/tutti/mercer");
  EXPECT_EQ(error_of([&] { find_image_folder({.explicit_path = folder / "none"}); }),
            (folder / "none").string() + ": no such folder");
}

TEST(ImageFolder, TestPicturesByRule) {
  const TemporaryFolder folder;
  write_set(folder.path());
  const ImageFolder found = list_image_folder(folder.path());
  EXPECT_EQ(test_paths(found, test_files(found, "")),
            (Words{"beach/beach04.PNG", "beach/beach09.tiff", "river/r-4.PNG", "river/r-9.tiff"}));
  const TemporaryFolder other;
  write_file(other / "a/14b.png", {});
  EXPECT_EQ(error_of([&] { test_files(list_image_folder(other.path()), ""); }),
            other.path().string() +
                ": of its 1 pictures none is for testing (those whose number ends in 4 or 9 are; name others with "
                "--test-list FILE)");
}

TEST(ImageFolder, TestPicturesByList) {
  const TemporaryFolder folder;
  write_set(folder / "set");
  const ImageFolder found = list_image_folder(folder / "set");
  const fs::path list = folder / "list.txt";
  const auto by_list = [&](const std::string& text) {
    write_file(list, bytes_of(text));
    return test_files(found, list);
  };
  EXPECT_EQ(test_paths(found, by_list("river/r-0.PNG\r\n\nbeach/beach01.tiff")),
            (Words{"beach/beach01.tiff", "river/r-0.PNG"}));
  EXPECT_EQ(error_of([&] { by_list("river/r-0.PNG\nriver/r-0.png\n"); }),
            list.string() + " line 2: river/r-0.png is no picture of " + (folder / "set").string() +
                "; expected a path like beach/beach00.PNG");
  EXPECT_EQ(error_of([&] { by_list("river/r-0.PNG\nriver/r-0.PNG\n"); }),
            list.string() + " line 2: river/r-0.PNG stands there twice");
  test::expect_parts(error_of([&] { by_list("\n"); }), {"none is for testing (by the list"});
  test::expect_parts(error_of([&] { test_files(found, folder / "none.txt"); }), {"none.txt: cannot be opened"});
}

TEST(FolderData, AllPicturesAreForTrainingAndForTesting) {
  const TemporaryFolder folder;
  write_set(folder / "set");
  const FolderData data = load_image_folder({.folder = folder / "set", .size = 12, .test_list = kAllFiles});
  ASSERT_EQ(data.train.count(), 20);
  ASSERT_EQ(data.test.count(), 20);
  const auto* const pixels = data.train.images.data<std::uint8_t>();
  EXPECT_TRUE(std::equal(pixels, pixels + data.train.images.numel(), data.test.images.data<std::uint8_t>()));
}

TEST(FolderData, EveryPictureIsResizedAndInItsSet) {
  const TemporaryFolder folder;
  write_set(folder / "set");
  for (const int threads : {1, 3}) {
    tensor::set_num_threads(threads);
    const FolderData data = load_image_folder({.folder = folder / "set", .size = 12});
    EXPECT_EQ(data.train.images.shape(), (tensor::Shape{16, 12, 12, 3}));
    EXPECT_EQ(data.test.images.shape(), (tensor::Shape{4, 12, 12, 3}));
    EXPECT_EQ(data.train.name, "set train");
    EXPECT_EQ(data.test.name, "set test");
    EXPECT_EQ(data.train.classes, 2);
    EXPECT_EQ(data.test.class_names, (Words{"beach", "river"}));
    EXPECT_FALSE(data.train.generated);
    EXPECT_TRUE(data.skipped.empty());
    const auto* const labels = data.train.labels.data<std::int64_t>();
    EXPECT_EQ(labels[7], 0);
    EXPECT_EQ(labels[8], 1);
    const auto* const bytes = data.test.images.data<std::uint8_t>();
    const auto picture = [&](int i) { return Bytes(bytes + i * 432, bytes + (i + 1) * 432); };
    EXPECT_EQ(picture(1), resize(pattern(29, 10), 12, 12).pixels);  // beach09
    EXPECT_EQ(picture(2), resize(pattern(24, 15), 12, 12).pixels);  // r-4
  }
  tensor::set_num_threads(1);
}

TEST(FolderData, BadPicturesAreNamedOrSkipped) {
  const TemporaryFolder folder;
  write_set(folder.path());
  write_file(folder / "beach/beach02.PNG", {});
  write_file(folder / "river/r-5.tiff", bytes_of("hello"));
  FolderOptions options{.folder = folder.path(), .size = 8};
  EXPECT_EQ(error_of([&] { load_image_folder(options); }),
            "2 of 20 pictures cannot be used; mend or remove them, or leave them out with --skip-bad-images: " +
                (folder / "beach/beach02.PNG").string() + " is empty (0 bytes); " +
                (folder / "river/r-5.tiff").string() +
                " is not a PNG, JPEG or TIFF picture: it begins with the bytes 68 65 6c 6c");
  options.skip_bad = true;
  const FolderData data = load_image_folder(options);
  EXPECT_EQ(data.train.count(), 14);
  ASSERT_EQ(data.skipped.size(), 2u);
  EXPECT_EQ(data.skipped[0].path, "beach/beach02.PNG");
  EXPECT_EQ(data.skipped[0].reason, "is empty (0 bytes)");
  EXPECT_EQ(data.skipped[1].path, "river/r-5.tiff");
  const auto bad = find_bad_images(list_image_folder(folder.path()));
  ASSERT_EQ(bad.size(), 2u);
  EXPECT_EQ(bad[1].path, "river/r-5.tiff");
  fs::create_symlink("nowhere.png", folder / "river/r-7.PNG");
  const auto skipped = load_image_folder(options).skipped;
  ASSERT_EQ(skipped.size(), 3u);
  EXPECT_EQ(skipped[2].path, "river/r-7.PNG");
  EXPECT_EQ(skipped[2].reason, "cannot be read: No such file or directory");
}

TEST(FolderData, ManyBadPicturesAreCounted) {
  const TemporaryFolder folder;
  write_set(folder.path());
  for (int n = 0; n < 10; n += 2) write_file(folder / ("beach/beach0" + std::to_string(n) + ".PNG"), {});
  for (int n = 1; n < 10; n += 2) write_file(folder / ("beach/beach0" + std::to_string(n) + ".tiff"), {});
  const std::string text = error_of([&] { load_image_folder({.folder = folder.path()}); });
  test::expect_parts(
      text, {"10 of 20 pictures cannot be used", "and 5 more (tutti data verify --data " + folder.path().string()});
  EXPECT_EQ(
      error_of([&] { load_image_folder({.folder = folder.path(), .skip_bad = true}); }),
      (folder / "beach").string() + ": none of this class's pictures can be used; mend them or remove the folder");
}

TEST(FolderData, RealPictures) {
  const auto data = test::test_data();
  if (!data) GTEST_SKIP() << "no test data: set TUTTI_TEST_DATA to the folder that holds ucmerced64/";
  const FolderData set = load_image_folder({.folder = *data / "ucmerced64"});
  EXPECT_EQ(set.train.count(), 1680);
  EXPECT_EQ(set.test.count(), 420);
  EXPECT_EQ(set.train.classes, 21);
  EXPECT_EQ(set.train.class_names.back(), "tenniscourt");
  const FolderData sample =
      load_image_folder({.folder = *data / "ucmerced-originals", .test_list = [&] {
                           static const TemporaryFolder folder;
                           return write_file(folder / "list", bytes_of("beach/beach00.tif\nriver/river02.tif\n"));
                         }()});
  EXPECT_EQ(sample.train.count(), 61);
  // The 64 x 64 set was made from the originals by the same resize.
  const auto* const original = sample.test.images.data<std::uint8_t>();
  const Image png = read_image(*data / "ucmerced64/beach/beach00.png");
  EXPECT_TRUE(std::equal(png.pixels.begin(), png.pixels.end(), original));
}

}  // namespace
}  // namespace tutti::trainer
