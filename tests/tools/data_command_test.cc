// `tutti data list` and `tutti data verify`.

#include <gtest/gtest.h>
#include <tutti/tests/support/test_data.h>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

class DataCommand : public testing::Test {
 protected:
  // Nothing of the machine's own must be found.
  Finished tutti_data(const Words& words) {
    const std::string home = folder_.path();
    return tutti(joined({"data"}, words), {"TUTTI_DATA=", "HOME=" + home, "XDG_CACHE_HOME=" + home});
  }
  Finished verify(const std::filesystem::path& folder) { return tutti_data({"verify", "--data", folder}); }

  /// verify ends with status 1, and its first sentence has `part`.
  void expect_refusal(const Finished& run, const std::string& part) {
    EXPECT_EQ(run.status, exited(1));
    expect_parts(first_line(run.err), {part});
  }

  const TestFolder folder_;
};

TEST_F(DataCommand, ListSaysWhenThereIsNoneAndWhereItLooked) {
  expect_success(tutti_data({"list"}), {"not found; training uses generated digits", folder_ / "tutti/mnist",
                                        "not found; training uses generated scenes", folder_ / "tutti/mercer"});
}

TEST_F(DataCommand, VerifyWithoutDataFails) {
  const Finished run = tutti_data({"verify"});
  EXPECT_EQ(run.status, exited(1));
  EXPECT_EQ(first_line(run.err),
            "tutti data verify: no MNIST files and no folder of pictures found; name their folder with --data");
}

TEST_F(DataCommand, VerifyNamesAMissingFolder) { expect_refusal(verify(folder_ / "nowhere"), "nowhere"); }

TEST_F(DataCommand, VerifyNamesEachFileThatCannotBeUsed) {
  folder_.write("mnist/train-labels-idx1-ubyte", "\1\2\3");
  const Finished run = verify(folder_ / "mnist");
  expect_refusal(run, "4 of the 4 files");
  expect_parts(run.out, {"train-labels-idx1-ubyte: damaged", "t10k-images-idx3-ubyte"});
}

TEST_F(DataCommand, VerifyNamesEachPictureThatCannotBeUsed) {
  folder_.write("set/beach/a.png", "a text");
  folder_.write("set/beach/b.tif", "");
  folder_.write("set/beach/notes.txt", "");
  const Finished run = verify(folder_ / "set");
  expect_refusal(run, "2 of the 2 pictures");
  expect_parts(run.out, {"  beach/a.png: is not a PNG, JPEG or TIFF picture", "  beach/b.tif: is empty (0 bytes)",
                         "  beach/notes.txt: ignored"});
  expect_parts(tutti_data({"list", "--data", folder_ / "set"}).out, {"set: 2 pictures in 1 classes"});
  std::filesystem::create_directories(folder_ / "set/empty");
  expect_refusal(verify(folder_ / "set"), "empty: this class has no pictures");
}

TEST_F(DataCommand, WithoutASubcommandIsWrongUsage) { EXPECT_EQ(tutti_data({}).status, exited(2)); }

TEST_F(DataCommand, VerifyAcceptsTheRealFiles) {
  const auto data = test_data();
  if (!data) GTEST_SKIP() << "no test data: set TUTTI_TEST_DATA to the folder that holds mnist/";
  expect_success(verify(*data / "mnist"), {"60000 entries"});
  expect_parts(tutti_data({"list", "--data", *data / "mnist"}).out, {*data / "mnist"});
  expect_success(verify(*data / "ucmerced-originals"), {"63 pictures in 21 classes, 0 of them cannot be used"});
}

}  // namespace
}  // namespace tutti::test
