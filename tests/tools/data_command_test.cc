// `tutti data list` and `tutti data verify`.

#include <gtest/gtest.h>
#include <tutti/tests/support/test_data.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tutti_program.h"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;

class DataCommand : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "mnist"); }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / "mnist" / name, std::ios::binary) << bytes;
  }

  // Nothing of the machine's own must be found.
  Finished tutti_data(std::vector<std::string> words) {
    words.insert(words.begin(), {TUTTI_PROGRAM, "data"});
    return run_program(words, {"TUTTI_DATA=", "HOME=" + folder_.string(), "XDG_CACHE_HOME=" + folder_.string()});
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("tutti_data_" + std::to_string(::getpid()));
};

TEST_F(DataCommand, ListSaysWhenThereIsNoneAndWhereItLooked) {
  const Finished run = tutti_data({"list"});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("not found; training uses generated digits"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find((folder_ / "tutti" / "mnist").string()), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("not found; training uses generated scenes"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find((folder_ / "tutti" / "mercer").string()), std::string::npos) << run.out;
}

TEST_F(DataCommand, VerifyWithoutDataFails) {
  const Finished run = tutti_data({"verify"});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_EQ(first_line(run.err),
            "tutti data verify: no MNIST files and no folder of pictures found; name their folder with --data");
}

TEST_F(DataCommand, VerifyNamesAMissingFolder) {
  const Finished run = tutti_data({"verify", "--data", (folder_ / "nowhere").string()});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_NE(first_line(run.err).find("nowhere"), std::string::npos) << run.err;
}

TEST_F(DataCommand, VerifyNamesEachFileThatCannotBeUsed) {
  write("train-labels-idx1-ubyte", "\1\2\3");
  const Finished run = tutti_data({"verify", "--data", (folder_ / "mnist").string()});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_NE(run.out.find("train-labels-idx1-ubyte: damaged"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("t10k-images-idx3-ubyte"), std::string::npos) << run.out;
  EXPECT_NE(first_line(run.err).find("4 of the 4 files"), std::string::npos) << run.err;
}

TEST_F(DataCommand, VerifyNamesEachPictureThatCannotBeUsed) {
  fs::create_directories(folder_ / "set" / "beach");
  std::ofstream(folder_ / "set" / "beach" / "a.png") << "a text";
  std::ofstream(folder_ / "set" / "beach" / "b.tif");
  std::ofstream(folder_ / "set" / "beach" / "notes.txt");
  const Finished run = tutti_data({"verify", "--data", (folder_ / "set").string()});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_NE(run.out.find("  beach/a.png: is not a PNG, JPEG or TIFF picture"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("  beach/b.tif: is empty (0 bytes)"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("  beach/notes.txt: ignored"), std::string::npos) << run.out;
  EXPECT_NE(first_line(run.err).find("2 of the 2 pictures"), std::string::npos) << run.err;
  const Finished list = tutti_data({"list", "--data", (folder_ / "set").string()});
  EXPECT_NE(list.out.find("set: 2 pictures in 1 classes"), std::string::npos) << list.out;
  fs::create_directories(folder_ / "set" / "empty");
  const Finished empty = tutti_data({"verify", "--data", (folder_ / "set").string()});
  EXPECT_EQ(empty.status, exited(1));
  EXPECT_NE(first_line(empty.err).find("empty: this class has no pictures"), std::string::npos) << empty.err;
}

TEST_F(DataCommand, WithoutASubcommandIsWrongUsage) { EXPECT_EQ(tutti_data({}).status, exited(2)); }

TEST_F(DataCommand, VerifyAcceptsTheRealFiles) {
  const auto data = test_data();
  if (!data) GTEST_SKIP() << "no test data: set TUTTI_TEST_DATA to the folder that holds mnist/";
  const Finished run = tutti_data({"verify", "--data", (*data / "mnist").string()});
  EXPECT_EQ(run.status, exited(0)) << run.err;
  EXPECT_NE(run.out.find("60000 entries"), std::string::npos) << run.out;
  const Finished list = tutti_data({"list", "--data", (*data / "mnist").string()});
  EXPECT_NE(list.out.find((*data / "mnist").string()), std::string::npos) << list.out;
  const Finished pictures = tutti_data({"verify", "--data", (*data / "ucmerced-originals").string()});
  EXPECT_EQ(pictures.status, exited(0)) << pictures.err;
  EXPECT_NE(pictures.out.find("63 pictures in 21 classes, 0 of them cannot be used"), std::string::npos);
}

}  // namespace
}  // namespace tutti::test
