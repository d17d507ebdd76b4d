#include <gtest/gtest.h>
#include <tutti/nn/models/models.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
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
