#include <gtest/gtest.h>
#include <tutti/nn/models/models.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/model_check.h>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;
using tensor::Variable;
using test::run_ranks;

struct Trainee {
  std::shared_ptr<nn::Module> model;
  std::unique_ptr<nn::Optimizer> optimizer;

  explicit Trainee(std::uint64_t seed) : model(nn::make_model("mlp", seed)) {
    std::vector<Variable> parameters;
    for (const auto& [name, parameter] : model->named_parameters()) parameters.push_back(parameter);
    optimizer = nn::make_adam(parameters, {});
  }
  void step() {
    optimizer->zero_grad();
    const Tensor target = Tensor::from<std::int64_t>(Shape{2}, {1, 7});
    cross_entropy(model->forward(Variable(Tensor::full(Shape{2, 784}, 0.5))), target).backward();
    optimizer->step();
  }
};

const std::map<std::string, std::string> kOptions{{"model", "mlp"}};

CheckpointState state_of(int epoch) { return {.epoch = epoch, .world_size = 2, .options = kOptions, .history = "[]"}; }

TEST(SharedCheckpoint, EveryRankGoesOnFromRank0sFiles) {
  const TemporaryFolder dir;
  Trainee uninterrupted(0);
  uninterrupted.step();
  run_ranks(2, [&](comm::ProcessGroup& group) {
    Trainee trainee(0);
    trainee.step();
    save_checkpoint(group, dir.path(), state_of(1), *trainee.model, *trainee.optimizer);
  });
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
std::vector<std::string> errors_of(const std::function<void(comm::ProcessGroup&)>& body) {
  std::vector<std::string> texts(2);
  run_ranks(2, [&](comm::ProcessGroup& group) {
    texts[static_cast<std::size_t>(group.rank())] = error_of([&] { body(group); });
    group.barrier();  // the group is still in step
  });
  return texts;
}

TEST(SharedCheckpoint, FailureToWriteIsThrownOnEveryRank) {
  const TemporaryFolder dir;
  write_durably(dir / "file", "");
  const auto texts = errors_of([&](comm::ProcessGroup& group) {
    Trainee trainee(0);
    save_checkpoint(group, dir / "file" / "checkpoints", state_of(1), *trainee.model, *trainee.optimizer);
  });
  EXPECT_NE(texts[0].find("cannot write the checkpoint"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(SharedCheckpoint, DamageAndOtherOptionsAreThrownOnEveryRank) {
  const TemporaryFolder dir;
  Trainee trainee(0);
  write_checkpoint(
      dir.path(),
      {.state = state_of(1), .model = model_tensors(*trainee.model), .optimizer = trainee.optimizer->state()});
  const auto resume = [&](std::map<std::string, std::string> wanted) {
    return errors_of([&, wanted](comm::ProcessGroup& group) {
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
