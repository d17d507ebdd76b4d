#include <gtest/gtest.h>
#include <tutti/nn/models/models.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/checkpointer.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <unistd.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using tensor::Shape;
using tensor::Tensor;
using tensor::Variable;
using test::run_ranks;

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

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Files, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b", 3);
  write_durably(folder / "file", bytes);
  EXPECT_EQ(read_whole_file(folder / "file"), bytes);
  write_durably(folder / "file", "");
  EXPECT_EQ(read_whole_file(folder / "file"), "");
}

TEST(Files, ReplaceLeavesOneFile) {
  const TemporaryFolder folder;
  replace_file(folder / "file", "first, and longer");
  replace_file(folder / "file", "second");
  EXPECT_EQ(read_whole_file(folder / "file"), "second");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(Files, ErrorsNameTheFileAndTheCause) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "no" / "file").string();
  for (const std::string& text :
       {error_of([&] { read_whole_file(missing); }), error_of([&] { check_writable(missing); }),
        error_of([&] { replace_file(missing, "x"); })}) {
    EXPECT_NE(text.find("no/"), std::string::npos) << text;
    EXPECT_NE(text.find("No such file or directory"), std::string::npos) << text;
  }
  EXPECT_NE(error_of([&] { check_writable(folder.path()); }).find("Is a directory"), std::string::npos);
}

TEST(Files, CheckWritableLeavesNothingBehind) {
  const TemporaryFolder folder;
  check_writable(folder / "file");
  EXPECT_EQ(entries_in(folder.path()), 0u);
}

// A link under the name that a draft had before (".NAME.tmp-PID") is not followed, nor is a draft left.
TEST(Files, ALinkInTheWayIsNotFollowed) {
  const TemporaryFolder folder;
  write_durably(folder / "victim", "kept");
  fs::create_symlink(folder / "victim", folder / (".file.tmp-" + std::to_string(::getpid())));
  check_writable(folder / "file");
  replace_file(folder / "file", "new");
  EXPECT_EQ(read_whole_file(folder / "victim"), "kept");
  EXPECT_EQ(entries_in(folder.path()), 3u);
  fs::create_symlink(folder / "victim", folder / "link");
  EXPECT_THROW(write_durably(folder / "link", "x"), std::system_error);
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

struct Trainee {
  std::shared_ptr<nn::Module> model;
  std::unique_ptr<nn::Optimizer> optimizer;

  explicit Trainee(std::uint64_t seed)
      : model(nn::make_model("mlp", seed)), optimizer(nn::make_adam(all_parameters(*model), {})) {}
  void step() {
    optimizer->zero_grad();
    const Tensor target = Tensor::from<std::int64_t>(Shape{2}, {1, 7});
    cross_entropy(model->forward(Variable(Tensor::full(Shape{2, 784}, 0.5))), target).backward();
    optimizer->step();
  }
};

const std::map<std::string, std::string> kOptions{{"model", "mlp"}};

/// As of a run on two ranks that has ended its first epoch.
void write(const TemporaryFolder& dir, Trainee& trainee) {
  write_checkpoint(dir.path(), {.state = {.epoch = 1, .world_size = 2, .options = kOptions, .history = "[]"},
                                .model = model_tensors(*trainee.model),
                                .optimizer = trainee.optimizer->state()});
}

TEST(SharedCheckpoint, EveryRankGoesOnFromRank0sFiles) {
  const TemporaryFolder dir;
  Trainee uninterrupted(0);
  uninterrupted.step();
  write(dir, uninterrupted);
  uninterrupted.step();
  std::vector<std::string> sums(3);
  run_ranks(3, [&](comm::ProcessGroup& group) {
    Trainee trainee(100 + static_cast<std::uint64_t>(group.rank()));
    const auto state = resume_checkpoint(group, dir.path(), kOptions, *trainee.model, *trainee.optimizer);
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->epoch, 1);
    EXPECT_EQ(state->world_size, 2);
    trainee.step();  // equal only if the optimizer's moments and step count came back too
    sums[static_cast<std::size_t>(group.rank())] = parameter_sha256(*trainee.model);
  });
  for (const std::string& sum : sums) EXPECT_EQ(sum, parameter_sha256(*uninterrupted.model));
}

TEST(SharedCheckpoint, NoneThereChangesNothing) {
  const TemporaryFolder dir;
  run_ranks(2, [&](comm::ProcessGroup& group) {
    Trainee trainee(5);
    const std::string before = parameter_sha256(*trainee.model);
    EXPECT_FALSE(resume_checkpoint(group, dir / "missing", kOptions, *trainee.model, *trainee.optimizer));
    EXPECT_EQ(parameter_sha256(*trainee.model), before);
  });
}

/// What each of two ranks throws.
std::vector<std::string> errors_in_step(const std::function<void(comm::ProcessGroup&)>& body) {
  std::vector<std::string> texts(2);
  run_ranks(2, [&](comm::ProcessGroup& group) {
    texts[static_cast<std::size_t>(group.rank())] = error_of([&] { body(group); });
    group.barrier();  // the group is still in step
  });
  return texts;
}

TEST(SharedCheckpoint, DamageAndOtherOptionsAreThrownOnEveryRank) {
  const TemporaryFolder dir;
  Trainee trainee(0);
  write(dir, trainee);
  const auto resume = [&](std::map<std::string, std::string> wanted) {
    return errors_in_step([&, wanted](comm::ProcessGroup& group) {
      Trainee other(1);
      resume_checkpoint(group, dir.path(), wanted, *other.model, *other.optimizer);
    });
  };
  auto texts = resume({{"model", "cnn"}});
  EXPECT_NE(texts[0].find("model was mlp, now cnn"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[0], texts[1]);
  write_durably(dir / "epoch-0001" / "optimizer.safetensors", "x");
  texts = resume(kOptions);
  EXPECT_NE(texts[1].find("optimizer.safetensors is damaged"), std::string::npos) << texts[1];
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace tutti::trainer
