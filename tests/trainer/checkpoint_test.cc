#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using tensor::Shape;
using tensor::Tensor;

Checkpoint example(int epoch) {
  Checkpoint checkpoint;
  checkpoint.state = {.epoch = epoch, .world_size = 2, .options = {{"lr", "0.1"}, {"seed", "0"}}, .history = "[1]"};
  checkpoint.model = {{"w", Tensor::from<float>(Shape{2}, {1, static_cast<float>(epoch)})}};
  checkpoint.optimizer = {{"0.step", Tensor::full(Shape{1}, epoch)}};
  return checkpoint;
}

TEST(Checkpoint, ComesBackAsItWas) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir / "a" / "b", example(2));
  EXPECT_EQ(folder.filename(), "epoch-0002");
  const Checkpoint read = read_checkpoint(folder);
  EXPECT_EQ(read.state.epoch, 2);
  EXPECT_EQ(read.state.world_size, 2);
  EXPECT_EQ(read.state.options.at("lr"), "0.1");
  EXPECT_EQ(read.state.history, "[1]");
  EXPECT_EQ(read.model.at(0).second.data<float>()[1], 2.0F);
  EXPECT_EQ(read.optimizer.at(0).second.item(), 2.0);
}

TEST(Checkpoint, NewestIsTheHighestEpochAndIncompleteOnesDoNotCount) {
  const TemporaryFolder dir;
  EXPECT_FALSE(newest_checkpoint(dir / "missing"));
  EXPECT_FALSE(newest_checkpoint(dir.path()));
  write_checkpoint(dir.path(), example(9));
  write_checkpoint(dir.path(), example(10));
  fs::create_directory(dir / ".epoch-0011.incomplete");  // what a killed run leaves
  fs::create_directory(dir / "epoch-12.old");
  write_durably(dir / "epoch-0013", "a file, no folder");
  EXPECT_EQ(newest_checkpoint(dir.path()), dir / "epoch-0010");
}

TEST(Checkpoint, LeftOversOfAKilledRunAreClearedByTheNextSave) {
  const TemporaryFolder dir;
  fs::create_directory(dir / ".epoch-0001.incomplete");
  write_durably(dir / ".epoch-0001.incomplete/model.safetensors", "half");
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  EXPECT_EQ(read_checkpoint(folder).state.epoch, 1);
  EXPECT_FALSE(fs::exists(dir / ".epoch-0001.incomplete"));
}

TEST(Checkpoint, AnEpochIsNeverOverwritten) {
  const TemporaryFolder dir;
  write_checkpoint(dir.path(), example(1));
  EXPECT_NE(error_of([&] { write_checkpoint(dir.path(), example(1)); }).find("that epoch is there already"),
            std::string::npos);
}

TEST(Checkpoint, EveryDamagedFileIsNamed) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    for (const bool cut : {true, false}) {
      const TemporaryFolder dir;
      const fs::path folder = write_checkpoint(dir.path(), example(1));
      std::string bytes = read_whole_file(folder / name);
      if (cut) {
        bytes.resize(bytes.size() / 2);
      } else {
        bytes[0] = static_cast<char>(bytes[0] ^ 1);
      }
      write_durably(folder / name, bytes);
      const std::string text = error_of([&] { read_checkpoint(folder); });
      EXPECT_NE(text.find(name), std::string::npos) << text;
      EXPECT_NE(text.find("damaged"), std::string::npos) << text;
      fs::remove(folder / name);
      EXPECT_NE(error_of([&] { read_checkpoint(folder); }).find(name), std::string::npos);
    }
  }
}

TEST(Checkpoint, StateThatContradictsItsFolderIsRefused) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  fs::rename(folder, dir / "epoch-0005");
  EXPECT_NE(error_of([&] { read_checkpoint(dir / "epoch-0005"); }).find("says epoch 1 in a folder named epoch-0005"),
            std::string::npos);
}

TEST(Checkpoint, StateWithAnotherFormatOrMissingKeysIsRefused) {
  const TemporaryFolder dir;
  const fs::path folder = write_checkpoint(dir.path(), example(1));
  write_durably(folder / "state.json", R"({"format": 2})");
  EXPECT_NE(error_of([&] { read_checkpoint(folder); }).find("reads format 1"), std::string::npos);
  write_durably(folder / "state.json", R"({"format": 1, "epoch": "one"})");
  EXPECT_NE(error_of([&] { read_checkpoint(folder); }).find("state.json is damaged"), std::string::npos);
}

TEST(Checkpoint, DifferencesAreListed) {
  const CheckpointState saved = example(1).state;
  EXPECT_EQ(option_differences(saved, {{"lr", "0.1"}, {"seed", "0"}}), "");
  const std::string text = option_differences(saved, {{"lr", "0.2"}, {"seed", "0"}, {"momentum", "0"}});
  EXPECT_NE(text.find("lr was 0.1, now 0.2; momentum was (not set), now 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("seed"), std::string::npos) << text;
}

TEST(Checkpoint, AssignChecksEverythingBeforeItWrites) {
  const Tensor target = Tensor::zeros(Shape{2});
  const Tensor other = Tensor::zeros(Shape{3});
  const auto assign = [&](const NamedTensors& source) {
    return error_of([&] { assign_tensors({{"a", target}, {"b", other}}, source, "F"); });
  };
  const Tensor ones = Tensor::full(Shape{2}, 1.0);
  EXPECT_NE(assign({{"a", ones}}).find("\"b\" is missing"), std::string::npos);
  EXPECT_NE(assign({{"a", ones}, {"b", ones}}).find("\"b\" is float32 (2), expected float32 (3)"), std::string::npos);
  EXPECT_NE(assign({{"a", ones}, {"b", other}, {"c", ones}}).find("\"c\" has no counterpart"), std::string::npos);
  EXPECT_EQ(target.data<float>()[0], 0.0F);
  EXPECT_EQ(assign({{"b", other}, {"a", ones}}), "");
  EXPECT_EQ(target.data<float>()[0], 1.0F);
}

}  // namespace
}  // namespace tutti::trainer
