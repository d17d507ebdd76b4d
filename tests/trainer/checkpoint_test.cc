#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/checkpoint_folder.h>
#include <tutti/trainer/checkpoint/files.h>

#include <fstream>
#include <limits>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using tensor::Shape;
using tensor::Tensor;

Checkpoint example(int epoch, std::int64_t step = 0) {
  Checkpoint checkpoint;
  checkpoint.state.epoch = epoch;
  checkpoint.state.step = step;
  checkpoint.state.steps_per_epoch = 30;
  checkpoint.state.world_size = 2;
  checkpoint.state.options = {{"lr", "0.1"}, {"seed", "0"}};
  checkpoint.state.history = "[1]";
  checkpoint.model = {{"w", Tensor::from<float>(Shape{2}, {1, static_cast<float>(epoch)})}};
  checkpoint.optimizer = {{"0.step", Tensor::full(Shape{1}, epoch)}};
  return checkpoint;
}

TEST(Checkpoint, ComesBackBitForBit) {
  const TemporaryFolder dir;
  EXPECT_EQ(write_checkpoint(dir / "a" / "b", example(2)).filename(), "epoch-0002");
  Checkpoint checkpoint = example(2, 20);
  const double infinity = std::numeric_limits<double>::infinity();
  checkpoint.state.sums = {{.loss = 0.1 + 0.2, .samples = 640}, {.loss = infinity, .samples = 7}};
  checkpoint.state.seconds = 1.0 / 3;
  const fs::path folder = write_checkpoint(dir / "a" / "b", checkpoint);
  EXPECT_EQ(folder.filename(), "epoch-0002-step-000020");
  const Checkpoint read = read_checkpoint(folder);
  EXPECT_EQ(read.state.position(), (CheckpointPosition{.epoch = 2, .step = 20}));
  EXPECT_EQ(read.state.steps_per_epoch, 30);
  EXPECT_EQ(read.state.world_size, 2);
  EXPECT_EQ(read.state.options.at("lr"), "0.1");
  EXPECT_EQ(read.state.history, "[1]");
  ASSERT_EQ(read.state.sums.size(), 2u);
  EXPECT_EQ(read.state.sums[0].loss, 0.1 + 0.2);
  EXPECT_EQ(read.state.sums[0].samples, 640);
  EXPECT_EQ(read.state.sums[1].loss, infinity);
  EXPECT_EQ(read.state.seconds, 1.0 / 3);
  EXPECT_EQ(read.model.at(0).second.data<float>()[1], 2.0F);
  EXPECT_EQ(read.optimizer.at(0).second.item(), 2.0);
}

TEST(Checkpoint, NamesAreUnderstoodOnlyWhole) {
  EXPECT_EQ(checkpoint_folder_name(12), "epoch-0012");
  EXPECT_EQ(checkpoint_folder_name(12345, 1234567), "epoch-12345-step-1234567");
  for (const CheckpointPosition position : {CheckpointPosition{}, {.epoch = 3}, {.epoch = 0, .step = 20}}) {
    EXPECT_EQ(checkpoint_position(checkpoint_folder_name(position.epoch, position.step)), position);
  }
  for (const char* name :
       {"epoch-", "epoch-1x", "epoch--1", "epoch-0001-step-", "epoch-0001-step-000000", "epoch-1-step-",
        "epoch-0001.damaged", ".epoch-0001.incomplete", "epoch-0001-step-000020.damaged"}) {
    EXPECT_FALSE(checkpoint_position(name)) << name;
  }
}

TEST(Checkpoint, NewestIsTheFurthestAndIncompleteOnesDoNotCount) {
  const TemporaryFolder dir;
  EXPECT_FALSE(newest_checkpoint(dir / "missing"));
  EXPECT_FALSE(newest_checkpoint(dir.path()));
  write_checkpoint(dir.path(), example(9));
  write_checkpoint(dir.path(), example(9, 20));
  EXPECT_EQ(newest_checkpoint(dir.path()), dir / "epoch-0009-step-000020");
  write_checkpoint(dir.path(), example(10));
  write_checkpoint(dir.path(), example(9, 100));         // a later clock does not make it newer
  fs::create_directory(dir / ".epoch-0011.incomplete");  // what a killed run leaves
  fs::create_directory(dir / "epoch-12.old");
  replace_file(dir / "epoch-0013", "a file, no folder");
  EXPECT_EQ(newest_checkpoint(dir.path()), dir / "epoch-0010");
  const std::vector<fs::path> all{dir / "epoch-0010", dir / "epoch-0009-step-000100", dir / "epoch-0009-step-000020",
                                  dir / "epoch-0009"};
  EXPECT_EQ(checkpoints_in(dir.path()), all);
}

TEST(Checkpoint, OldOnesGoAndLeftOversToo) {
  const TemporaryFolder dir;
  for (int epoch = 1; epoch <= 5; ++epoch) write_checkpoint(dir.path(), example(epoch));
  fs::create_directories(dir / "epoch-0001.damaged");
  fs::create_directories(dir / ".epoch-0006.incomplete/half");
  fs::create_directories(dir / ".epoch-0000.deleted/half");
  remove_old_checkpoints(dir.path(), 0);
  EXPECT_EQ(checkpoints_in(dir.path()).size(), 5u);
  remove_old_checkpoints(dir.path(), 2);
  EXPECT_EQ(checkpoints_in(dir.path()), (std::vector<fs::path>{dir / "epoch-0005", dir / "epoch-0004"}));
  EXPECT_TRUE(fs::exists(dir / ".epoch-0006.incomplete"));
  clear_left_overs(dir.path());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 3);  // and the damaged one
}

TEST(Checkpoint, DamagedOnesAreSetAsideUnderNewNames) {
  const TemporaryFolder dir;
  for (const char* name : {"epoch-0001.damaged", "epoch-0001.damaged-2", "epoch-0001.damaged-3"}) {
    EXPECT_EQ(set_aside(write_checkpoint(dir.path(), example(1))), dir / name);
  }
  EXPECT_FALSE(newest_checkpoint(dir.path()));
}

TEST(Checkpoint, OneRunAtATimeHoldsAFolder) {
  const TemporaryFolder dir;
  {
    const FolderLock lock(dir / "c");
    const std::string text = error_of([&] { FolderLock(dir / "c", std::chrono::milliseconds(0)); });
    test::expect_parts(text, {"is in use by another run (process " + std::to_string(::getpid()), "--checkpoint-dir"});
  }
  const FolderLock again(dir / "c", std::chrono::milliseconds(0));
}

TEST(Checkpoint, LeftOversOfAKilledRunAreClearedByTheNextSave) {
  const TemporaryFolder dir;
  fs::create_directory(dir / ".epoch-0001.incomplete");
  replace_file(dir / ".epoch-0001.incomplete/model.safetensors", "half");
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  EXPECT_EQ(read_checkpoint(folder).state.epoch, 1);
  EXPECT_FALSE(fs::exists(dir / ".epoch-0001.incomplete"));
}

TEST(Checkpoint, AnEpochIsNeverOverwritten) {
  const TemporaryFolder dir;
  write_checkpoint(dir.path(), example(1));
  test::expect_parts(error_of([&] { write_checkpoint(dir.path(), example(1)); }), {"it is there already"});
}

/// Flips the lowest bit of a byte of a file. Without fsync, which would take most of the tests' time.
void flip(const fs::path& file, std::size_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(stream.good()) << file;
}

TEST(Checkpoint, EveryFlippedByteAndEveryCutIsDamageOfTheFileThatIsNamed) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir.path(), example(1, 3));
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string bytes = read_whole_file(folder / name);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      flip(folder / name, at);
      SCOPED_TRACE("byte " + std::to_string(at));
      test::expect_parts(error_of([&] { read_checkpoint(folder); }), {name, at == 0 ? "damaged" : ""});
      flip(folder / name, at);
    }
    const std::string half = bytes.substr(0, bytes.size() / 2);
    replace_file(folder / name, half);
    test::expect_parts(error_of([&] { read_checkpoint(folder); }), {name, "damaged"});
    if (name != "state.json") {
      const std::string lengths = "it is " + std::to_string(half.size()) + " bytes long, state.json says ";
      test::expect_parts(error_of([&] { read_checkpoint(folder); }), {lengths + std::to_string(bytes.size())});
    }
    fs::remove(folder / name);
    test::expect_parts(error_of([&] { read_checkpoint(folder); }), {name});
    replace_file(folder / name, bytes);
  }
  EXPECT_EQ(read_checkpoint(folder).state.step, 3);
}

TEST(Checkpoint, AFileThatCannotBeReadIsDamageOneThatIsForbiddenIsNot) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  fs::remove(folder / "optimizer.safetensors");
  EXPECT_THROW(read_checkpoint(folder), DamagedCheckpoint);
  fs::create_directory(folder / "optimizer.safetensors");
  EXPECT_THROW(read_checkpoint(folder), DamagedCheckpoint);
  fs::remove(folder / "optimizer.safetensors");
  fs::create_symlink("optimizer.safetensors", folder / "optimizer.safetensors");  // too many levels of links
  const std::string text = error_of([&] { read_checkpoint(folder); });
  test::expect_parts(text, {"cannot read " + (folder / "optimizer.safetensors").string()});
  test::expect_absent(text, {"damaged"});
}

TEST(Checkpoint, StateThatContradictsItsFolderIsRefused) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  fs::rename(folder, dir / "epoch-0005");
  test::expect_parts(error_of([&] { read_checkpoint(dir / "epoch-0005"); }),
                     {"says epoch 1 in a folder named epoch-0005"});
}

TEST(Checkpoint, StateWithAnotherFormatOrMissingKeysIsRefused) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  for (const char* other : {R"({"format": 1})", R"({"format": 3})"}) {
    replace_file(folder / "state.json", other);
    test::expect_parts(error_of([&] { read_checkpoint(folder); }), {"reads format 2"});
  }
  replace_file(folder / "state.json", R"({"format": 2, "epoch": "one"})");
  test::expect_parts(error_of([&] { read_checkpoint(folder); }), {"state.json is damaged"});
}

TEST(Checkpoint, DifferencesAreListed) {
  const CheckpointState saved = example(1).state;
  EXPECT_EQ(option_differences(saved, {{"lr", "0.1"}, {"seed", "0"}}), "");
  const std::string text = option_differences(saved, {{"lr", "0.2"}, {"seed", "0"}, {"momentum", "0"}});
  test::expect_parts(text, {"lr was 0.1, now 0.2; momentum was (not set), now 0"});
  test::expect_absent(text, {"seed"});
}

TEST(Checkpoint, AssignChecksEverythingBeforeItWrites) {
  const Tensor target = Tensor::zeros(Shape{2});
  const Tensor other = Tensor::zeros(Shape{3});
  const auto assign = [&](const NamedTensors& source) {
    return error_of([&] { assign_tensors({{"a", target}, {"b", other}}, source, "F"); });
  };
  const Tensor ones = Tensor::full(Shape{2}, 1.0);
  test::expect_parts(assign({{"a", ones}}), {"F: it lacks \"b\""});
  test::expect_parts(assign({{"a", ones}, {"b", ones}}), {"\"b\" is float32 (2), expected float32 (3)"});
  test::expect_parts(assign({{"a", ones}, {"b", other}, {"c", ones}}), {"F: there is no tensor here for its \"c\""});
  EXPECT_EQ(target.data<float>()[0], 0.0F);
  EXPECT_EQ(assign({{"b", other}, {"a", ones}}), "");
  EXPECT_EQ(target.data<float>()[0], 1.0F);
}

}  // namespace
}  // namespace tutti::trainer
