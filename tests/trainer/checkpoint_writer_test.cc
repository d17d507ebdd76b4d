#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/checkpoint/files.h>

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
  write_durably(dir / "epoch-0002", "in the way");
  put(writer, 2, weights);
  const std::string text = error_of([&] { writer.space(); });
  EXPECT_NE(text.find("cannot write the checkpoint " + (dir / "epoch-0002").string() + ": Not a directory"),
            std::string::npos)
      << text;
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

}  // namespace
}  // namespace tutti::trainer
