#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/data/digest.h>
#include <unistd.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using tensor::Shape;
using tensor::Tensor;

void put(CheckpointWriter& writer, int epoch, Tensor& weights) {
  EncodedCheckpoint& space = writer.space();
  space.state.epoch = epoch;
  encode_checkpoint({{"w", weights}}, {}, {}, space);
  writer.start();
}

TEST(CheckpointWriter, HoldsWhatWasThereWhenTheCopyWasTaken) {
  const TemporaryFolder dir;
  CheckpointWriter writer(dir.path(), 0);
  Tensor weights = Tensor::zeros(Shape{100'000});
  for (int epoch = 1; epoch <= 5; ++epoch) {
    weights.fill(epoch);
    put(writer, epoch, weights);
    weights.fill(-1);  // training goes on
  }
  writer.finish();
  EXPECT_EQ(writer.last_complete(), dir / "epoch-0005");
  for (int epoch = 1; epoch <= 5; ++epoch) {
    const Checkpoint read = read_checkpoint(dir / checkpoint_folder_name(epoch));
    const auto* values = read.model.at(0).second.data<float>();
    EXPECT_EQ(std::count(values, values + 100'000, static_cast<float>(epoch)), 100'000) << epoch;
  }
}

TEST(CheckpointWriter, AFailureStaysAndDeletesNothing) {
  const TemporaryFolder dir;
  Tensor weights = Tensor::zeros(Shape{10});
  CheckpointWriter writer(dir.path(), 1);
  put(writer, 1, weights);
  writer.finish();
  EXPECT_FALSE(writer.failure());
  replace_file(dir / "epoch-0002", "in the way");
  put(writer, 2, weights);
  const std::string text = error_of([&] { writer.space(); });
  test::expect_parts(text, {"cannot write the checkpoint " + (dir / "epoch-0002").string() + ": Not a directory"});
  EXPECT_EQ(writer.failure(), text);
  EXPECT_EQ(error_of([&] { writer.finish(); }), text);
  EXPECT_EQ(writer.last_complete(), dir / "epoch-0001");
  EXPECT_EQ(read_checkpoint(dir / "epoch-0001").state.epoch, 1);
  EXPECT_FALSE(fs::exists(dir / ".epoch-0002.incomplete"));
}

TEST(CheckpointWriter, EndsWithAWriteUnderWayComplete) {
  const TemporaryFolder dir;
  Tensor weights = Tensor::zeros(Shape{1'000'000});
  {
    CheckpointWriter writer(dir.path(), 3);
    put(writer, 1, weights);
  }
  EXPECT_EQ(read_checkpoint(dir / "epoch-0001").model.at(0).second.numel(), 1'000'000);
}

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Files, ReadsWhatWasWrittenInPlaceOfWhatWasThere) {
  const TemporaryFolder folder;
  for (const std::string& bytes : {std::string("a\0b, and longer", 15), std::string("a\0b", 3), std::string()}) {
    replace_file(folder / "file", bytes);
    EXPECT_EQ(read_whole_file(folder / "file"), bytes);
  }
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(Files, ErrorsNameTheFileAndTheCause) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "no" / "file").string();
  for (const std::string& text :
       {error_of([&] { read_whole_file(missing); }), error_of([&] { check_writable(missing); }),
        error_of([&] { replace_file(missing, "x"); })}) {
    test::expect_parts(text, {"no/", "No such file or directory"});
  }
  test::expect_parts(error_of([&] { check_writable(folder.path()); }), {"Is a directory"});
}

TEST(Files, CheckWritableLeavesNothingBehind) {
  const TemporaryFolder folder;
  check_writable(folder / "file");
  EXPECT_EQ(entries_in(folder.path()), 0u);
}

// A link under the name that a draft had before (".NAME.tmp-PID") is not followed, nor is a draft left.
TEST(Files, ALinkInTheWayIsNotFollowed) {
  const TemporaryFolder folder;
  replace_file(folder / "victim", "kept");
  fs::create_symlink(folder / "victim", folder / (".file.tmp-" + std::to_string(::getpid())));
  check_writable(folder / "file");
  replace_file(folder / "file", "new");
  EXPECT_EQ(read_whole_file(folder / "victim"), "kept");
  EXPECT_EQ(entries_in(folder.path()), 3u);
  fs::create_symlink(folder / "victim", folder / "link");
  replace_file(folder / "link", "x");
  EXPECT_EQ(read_whole_file(folder / "victim"), "kept");
}

TEST(Files, DevicesAreWrittenNotReplaced) {
  check_writable("/dev/null");
  replace_file("/dev/null", "gone");
  EXPECT_EQ(fs::status("/dev/null").type(), fs::file_type::character);
}

// FIPS 180-4 examples.
TEST(Digest, KnownSums) {
  EXPECT_EQ(Digest().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Digest().add("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest().add("a").add("bc").hex(), Digest().add("abc").hex());
}

TEST(Digest, CannotGoOnAfterDigest) {
  Digest sum;
  sum.bytes();
  EXPECT_THROW(sum.add("x"), std::logic_error);
  EXPECT_THROW(sum.bytes(), std::logic_error);
}

}  // namespace
}  // namespace tutti::trainer
