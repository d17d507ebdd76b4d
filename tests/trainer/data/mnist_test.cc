#include <gtest/gtest.h>
#include <tutti/tests/support/test_data.h>
#include <tutti/tests/trainer/data/data_files.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/mnist.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> kNames = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                               "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// Three training and two test images.
void write_small_mnist(const fs::path& folder, bool packed) {
  const std::array<Bytes, 4> contents = {image_bytes(3), label_bytes({7, 8, 9}), image_bytes(2), label_bytes({0, 1})};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    write_file(folder / (std::string(kNames[i]) + (packed ? ".gz" : "")), packed ? gzip(contents[i]) : contents[i]);
  }
}

TEST(Mnist, LoadsBothSplitsPlainAndPacked) {
  for (const bool packed : {false, true}) {
    const TemporaryFolder folder;
    write_small_mnist(folder.path(), packed);
    const ImageDataset train = load_mnist(folder.path(), Split::Train);
    const ImageDataset test = load_mnist(folder.path(), Split::Test);
    EXPECT_EQ(train.images.shape(), (tensor::Shape{3, 28, 28, 1}));
    EXPECT_EQ(train.labels.data<std::int64_t>()[2], 9);
    EXPECT_EQ(train.name, "mnist train");
    EXPECT_EQ(train.count(), 3);
    EXPECT_EQ(train.classes, 10);
    EXPECT_FALSE(train.generated);
    EXPECT_EQ(test.count(), 2);
    EXPECT_EQ(test.name, "mnist test");
  }
}

TEST(Mnist, DotsInTheNamesAreFoundToo) {
  for (const bool packed : {false, true}) {
    const TemporaryFolder folder;
    write_small_mnist(folder.path(), packed);
    for (std::string name : kNames) {
      const std::string ending = packed ? ".gz" : "";
      std::string dotted = name;
      dotted[name.find("-idx")] = '.';
      fs::rename(folder / (name + ending), folder / (dotted + ending));
    }
    EXPECT_EQ(load_mnist(folder.path(), Split::Test).count(), 2);
  }
}

TEST(Mnist, SearchOrder) {
  const DataSearch everywhere{.explicit_path = {}, .tutti_data = "/t", .working_directory = "/w", .cache_home = "/c"};
  EXPECT_EQ(mnist_folders(everywhere),
            (std::vector<fs::path>{"/t", "/t/MNIST/raw", "/t/mnist", "/t/mnist/MNIST/raw", "/w/data/mnist",
                                   "/w/data/mnist/MNIST/raw", "/c/tutti/mnist", "/c/tutti/mnist/MNIST/raw"}));
  const DataSearch given{.explicit_path = "/e", .tutti_data = "/t", .working_directory = "/w", .cache_home = "/c"};
  EXPECT_EQ(mnist_folders(given), (std::vector<fs::path>{"/e", "/e/MNIST/raw", "/e/mnist", "/e/mnist/MNIST/raw"}));
  EXPECT_TRUE(mnist_folders({}).empty());
}

TEST(Mnist, FindsTheFirstFolderThatHoldsIt) {
  const TemporaryFolder folder;
  const DataSearch search{.explicit_path = {},
                          .tutti_data = folder / "set",
                          .working_directory = folder / "work",
                          .cache_home = folder / "cache"};
  EXPECT_EQ(find_mnist(search), std::nullopt);
  write_small_mnist(folder / "cache/tutti/mnist", true);
  EXPECT_EQ(find_mnist(search), folder / "cache/tutti/mnist");
  write_small_mnist(folder / "work/data/mnist", false);
  EXPECT_EQ(find_mnist(search), folder / "work/data/mnist");
  write_small_mnist(folder / "set/mnist/MNIST/raw", true);
  EXPECT_EQ(find_mnist(search), folder / "set/mnist/MNIST/raw");
}

TEST(Mnist, AnExplicitPathWithoutDataIsAnError) {
  const TemporaryFolder folder;
  write_small_mnist(folder / "cache/tutti/mnist", true);
  DataSearch search{
      .explicit_path = folder / "nowhere", .tutti_data = {}, .working_directory = {}, .cache_home = folder / "cache"};
  const std::string files =
      " train-images-idx3-ubyte[.gz] train-labels-idx1-ubyte[.gz] t10k-images-idx3-ubyte[.gz] "
      "t10k-labels-idx1-ubyte[.gz]";
  EXPECT_EQ(error_of([&] { find_mnist(search); }),
            (folder / "nowhere").string() + ": no such folder; looked for MNIST's files there:" + files);
  fs::create_directory(folder / "nowhere");
  EXPECT_EQ(error_of([&] { find_mnist(search); }),
            (folder / "nowhere").string() +
                ": holds none of MNIST's files (nor do its mnist/ and MNIST/raw/); looked for:" + files);
  search.explicit_path = write_file(folder / "file", {1});
  EXPECT_EQ(error_of([&] { find_mnist(search); }),
            (folder / "file").string() + ": is not a folder; expected one that holds MNIST's files:" + files);
}

TEST(Mnist, AnIncompleteFolderIsFoundAndNamesWhatIsMissing) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), true);
  fs::remove(folder / "train-labels-idx1-ubyte.gz");
  ASSERT_EQ(find_mnist({.explicit_path = folder.path(), .tutti_data = {}, .working_directory = {}, .cache_home = {}}),
            folder.path());
  EXPECT_EQ(error_of([&] { load_mnist(folder.path(), Split::Train); }),
            (folder / "train-labels-idx1-ubyte.gz").string() +
                ": is missing (and so is the unpacked train-labels-idx1-ubyte); the folder holds only part of MNIST");
}

TEST(Mnist, ALabelFileOfTheWrongLengthIsNamed) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), false);
  write_file(folder / "train-labels-idx1-ubyte", label_bytes({1, 2}));
  EXPECT_EQ(
      error_of([&] { load_mnist(folder.path(), Split::Train); }),
      (folder / "train-labels-idx1-ubyte").string() + ": field 'extent 0' is 2 labels, expected 3, one for each image");
}

TEST(Mnist, TheEnvironmentNamesThePlaces) {
  const TemporaryFolder folder;
  ::setenv("TUTTI_DATA", "/some/data", 1);
  ::setenv("XDG_CACHE_HOME", "/some/cache", 1);
  DataSearch search = DataSearch::from_environment("/given");
  EXPECT_EQ(search.explicit_path, "/given");
  EXPECT_EQ(search.tutti_data, "/some/data");
  EXPECT_EQ(search.working_directory, ".");
  EXPECT_EQ(search.cache_home, "/some/cache");
  ::unsetenv("TUTTI_DATA");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/somebody", 1);
  search = DataSearch::from_environment({});
  EXPECT_TRUE(search.explicit_path.empty());
  EXPECT_TRUE(search.tutti_data.empty());
  EXPECT_EQ(search.cache_home, "/home/somebody/.cache");
}

TEST(MnistVerify, ReportsEachFileAndThrowsNothing) {
  const TemporaryFolder folder;
  write_small_mnist(folder.path(), true);
  fs::remove(folder / "train-images-idx3-ubyte.gz");
  Bytes damaged = gzip(image_bytes(2));
  damaged.resize(damaged.size() - 3);
  write_file(folder / "t10k-images-idx3-ubyte.gz", damaged);
  fs::remove(folder / "t10k-labels-idx1-ubyte.gz");
  write_file(folder / "t10k-labels-idx1-ubyte", label_bytes(Bytes(10000, 4)));

  const auto findings = verify_mnist(folder.path());
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_FALSE(findings[0].present);
  EXPECT_FALSE(findings[0].readable());
  EXPECT_EQ(findings[0].file, "train-images-idx3-ubyte.gz");
  EXPECT_EQ(findings[0].error, (folder / "train-images-idx3-ubyte.gz").string() + ": is missing");

  EXPECT_TRUE(findings[1].present);
  EXPECT_EQ(findings[1].gzip_ok, true);
  EXPECT_FALSE(findings[1].published());
  EXPECT_FALSE(findings[1].readable());  // three labels are not sixty thousand
  test::expect_parts(findings[1].error, {"is 3 labels, expected 60000"});

  EXPECT_EQ(findings[2].gzip_ok, false);
  EXPECT_EQ(findings[2].bytes, damaged.size());
  test::expect_parts(findings[2].error, {"cut short"});

  EXPECT_EQ(findings[3].file, "t10k-labels-idx1-ubyte");
  EXPECT_EQ(findings[3].gzip_ok, std::nullopt);
  EXPECT_EQ(findings[3].count, 10000);
  EXPECT_TRUE(findings[3].readable());
  EXPECT_TRUE(findings[3].published());  // nothing known against it
  EXPECT_EQ(findings[3].md5.size(), 32u);
}

class RealMnist : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto data = test::test_data();
    if (!data || !fs::exists(*data / "mnist")) {
      GTEST_SKIP() << "no mnist/ in the folder named by TUTTI_TEST_DATA";
    }
    folder_ = *data / "mnist";
  }
  fs::path folder_;
};

TEST_F(RealMnist, IsWhatWasPublished) {
  for (const MnistFinding& finding : verify_mnist(folder_)) {
    EXPECT_TRUE(finding.readable()) << finding.file << ": " << finding.error;
    EXPECT_TRUE(finding.published()) << finding.file << ": " << finding.md5;
    EXPECT_EQ(finding.gzip_ok, true) << finding.file;
  }
}

TEST_F(RealMnist, HasTheKnownLabels) {
  const ImageDataset train = load_mnist(folder_, Split::Train);
  std::array<std::int64_t, 10> counts{};
  const auto* const labels = train.labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < train.count(); ++i) {
    ++counts[static_cast<std::size_t>(labels[i])];
  }
  EXPECT_EQ(counts, (std::array<std::int64_t, 10>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
  EXPECT_EQ((std::vector<std::int64_t>(labels, labels + 10)),
            (std::vector<std::int64_t>{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
  EXPECT_EQ(load_mnist(folder_, Split::Test).count(), 10000);
}

}  // namespace
}  // namespace tutti::trainer
