// The judge is one rank that has the whole batch.
#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/shared_batch.h>
#include <tutti/trainer/task.h>

#include <cmath>
#include <cstring>
#include <map>

namespace tutti::trainer {
namespace {

using tensor::Tensor;
using tensor::Variable;

/// Values between -1 and 1 that depend on the sample alone.
Tensor pictures(std::int64_t begin, std::int64_t end, std::int64_t side, std::int64_t channels) {
  return numbered({end - begin, side, side, channels}, [&](std::int64_t i) {
    const auto at = static_cast<double>(begin * side * side * channels + i);
    return std::sin(at * 0.37) + 0.3 * std::cos(at * 0.011);
  });
}

Tensor labels(std::int64_t begin, std::int64_t end) {
  return numbered<std::int64_t>({end - begin}, [&](std::int64_t i) { return (begin + i) * 5 % 7; });
}

struct Outcome {
  Values output;                            // of all ranks, one behind the other
  std::map<std::string, Values> gradients;  // of rank 0
  std::vector<std::map<std::string, Values>> buffers;
};

using MakeModel = std::function<std::shared_ptr<nn::Module>()>;

/// One step; rank r has the samples [bounds[r], bounds[r + 1]).
Outcome run(const std::vector<std::int64_t>& bounds, const MakeModel& make_model, std::int64_t side,
            std::int64_t channels, const BucketLimits& limits = {}, bool exact = false) {
  const auto ranks = bounds.size() - 1;
  std::vector<Values> outputs(ranks);
  Outcome outcome;
  outcome.buffers.resize(ranks);
  test::run_ranks(static_cast<int>(ranks), [&](comm::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto model = make_model();
    EXPECT_GT(synchronise_batch_norm(*model, group, exact), 0);
    DataParallel parallel(model, group, {.buckets = limits});
    const std::int64_t begin = bounds[rank];
    const std::int64_t end = bounds[rank + 1];
    const Variable output = parallel.forward(Variable(pictures(begin, end, side, channels)));
    outputs[rank] = values_of(output.data());
    if (end > begin) {
      const Variable flat = reshape(output, {end - begin, output.data().numel() / (end - begin)});
      const Variable loss = cross_entropy(flat, labels(begin, end));
      parallel.backward(loss, static_cast<double>(end - begin) / static_cast<double>(bounds.back()));
    } else {
      parallel.backward(sum(output), 0);
    }
    parallel.finish();
    for (const auto& [name, buffer] : model->named_buffers()) outcome.buffers[rank][name] = values_of(buffer);
    if (rank > 0) return;
    for (auto& [name, parameter] : model->named_parameters()) outcome.gradients[name] = values_of(parameter.grad());
  });
  for (const auto& output : outputs) outcome.output.insert(outcome.output.end(), output.begin(), output.end());
  return outcome;
}

/// Absolute for small numbers, relative to the largest for large ones.
void expect_close(const Values& found, const Values& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 1;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-5F * largest) << what << " " << i;
}

void expect_equal_to_one_rank(const std::vector<std::int64_t>& bounds, const MakeModel& make_model, std::int64_t side,
                              std::int64_t channels, const BucketLimits& limits = {}) {
  const Outcome one = run({0, bounds.back()}, make_model, side, channels);
  const Outcome several = run(bounds, make_model, side, channels, limits);
  expect_close(several.output, one.output, "output");
  for (const auto& [name, gradient] : one.gradients) expect_close(several.gradients.at(name), gradient, name);
  for (const auto& buffers : several.buffers) {
    for (const auto& [name, buffer] : one.buffers[0]) expect_close(buffers.at(name), buffer, name);
    EXPECT_EQ(buffers, several.buffers[0]) << "running statistics must be the same bits on all ranks";
  }
}

std::shared_ptr<nn::Module> one_layer() { return std::make_shared<nn::BatchNorm2d>(7); }

TEST(SyncBatchNorm, FourRanksOfFourEqualOneRankOfSixteen) {
  expect_equal_to_one_rank({0, 4, 8, 12, 16}, one_layer, 3, 7);
}

TEST(SyncBatchNorm, EveryRowOfEveryRankCountsOnce) {
  expect_equal_to_one_rank({0, 1, 7, 16}, one_layer, 1, 7);
  expect_equal_to_one_rank({0, 1, 2}, one_layer, 1, 7);  // a single row alone would be refused
}

TEST(SyncBatchNorm, ARankWithoutSamplesTakesPart) {
  expect_equal_to_one_rank({0, 5, 5, 9}, one_layer, 2, 7);
  expect_equal_to_one_rank({0, 0, 9}, one_layer, 2, 7);
}

// Residual blocks with fused relu, 1x1 downsampling, gradients in several buckets on their way meanwhile.
/// Offsets of three standard deviations, so that relus cut one number in a thousand and none stands at its edge: there
/// the last bit of a sum decides whether a gradient passes, and no two orders of summation agree to 1e-5.
std::shared_ptr<nn::Module> resnet_away_from_edges() {
  auto model = nn::make_model("resnet18", 1, {.classes = 7});
  for (auto& [name, parameter] : model->named_parameters()) {
    if (name.ends_with(".bias") && name != "fc.bias") parameter.data().fill(3);
  }
  return model;
}

TEST(SyncBatchNorm, WholeResidualModelsEqualOneRank) {
  const MakeModel resnet = resnet_away_from_edges;
  expect_equal_to_one_rank({0, 4, 8, 12, 16}, resnet, 32, 3,
                           {.first_bucket_bytes = 1 << 16, .bucket_cap_bytes = 1 << 20});
}

// The bits of whole trainings: reproducible_test.cc.
TEST(SyncBatchNorm, ExactSumsAreTheSameNumbersAndTheSameBitsOnAnyRanks) {
  const Outcome plain = run({0, 9}, one_layer, 5, 7);
  const Outcome one = run({0, 9}, one_layer, 5, 7, {}, true);
  expect_close(one.output, plain.output, "output");
  for (const auto& [name, gradient] : plain.gradients) expect_close(one.gradients.at(name), gradient, name);
  for (const auto& [name, buffer] : plain.buffers[0]) expect_close(one.buffers[0].at(name), buffer, name);
  for (const auto& bounds : std::vector<std::vector<std::int64_t>>{{0, 1, 9}, {0, 5, 5, 9}, {0, 0, 3, 4, 9}}) {
    const Outcome several = run(bounds, one_layer, 5, 7, {}, true);
    EXPECT_EQ(several.output, one.output);
    for (const auto& buffers : several.buffers) EXPECT_EQ(buffers, one.buffers[0]);
  }
}

TEST(SyncBatchNorm, FixedStatisticsHaveTheSameGradientsWithExactSums) {
  std::vector<Values> gradients;
  for (const bool exact : {false, true}) {
    test::run_ranks(1, [&](comm::ProcessGroup& group) {
      nn::BatchNorm2d layer(7);
      synchronise_batch_norm(layer, group, exact);
      layer.train(false);
      sum(mul(layer.forward(Variable(pictures(0, 4, 3, 7))), Variable(pictures(4, 8, 3, 7)))).backward();
      gradients.push_back(values_of(layer.weight().grad()));
    });
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

// 84 pictures, not padded: in the last step four ranks have one picture each and the fifth has none.
TEST(SyncBatchNorm, ARunDoesNotDependOnTheNumberOfRanks) {
  TemporaryFolder folder;
  TrainOptions options = small_mercer(folder / "data", "resnet18");
  options.augment = false;
  options.padding = false;
  options.learning_rate = 0.001;  // small, so that what the rounding of one step does stays out of the next
  options.sync_batch_norm = true;
  const auto first_epoch = [&](int ranks) {
    options.batch_size = 40 / ranks;
    return train_on(ranks, options).reports[0].epochs.at(0);
  };
  const EpochReport one = first_epoch(1);
  const EpochReport five = first_epoch(5);
  EXPECT_NEAR(five.train_loss / one.train_loss, 1, 5e-4);
  EXPECT_NEAR(*five.test_loss / *one.test_loss, 1, 1e-2);
  options.sync_batch_norm = false;
  EXPECT_GT(std::abs(first_epoch(2).train_loss / one.train_loss - 1), 5e-3);
}

TEST(SyncBatchNorm, EvaluationAsksNobody) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {
    const auto layer = std::make_shared<nn::BatchNorm2d>(2);
    EXPECT_EQ(synchronise_batch_norm(*layer, group), 1);
    layer->train(false);
    if (group.rank() == 1) return;
    EXPECT_EQ(layer->forward(Variable(Tensor::full({1, 1, 1, 2}, 3))).data().numel(), 2);
  });
}

// Nobody waits for the deadline: a rank that is gone takes its layers' group with it.
TEST(SyncBatchNorm, ARankThatFailsEndsTheOthersWait) {
  const auto texts = errors_of(3, [](comm::ProcessGroup& group) {
    const auto layer = std::make_shared<nn::BatchNorm2d>(2);
    EXPECT_EQ(synchronise_batch_norm(*layer, group), 1);
    if (group.rank() == 1) throw std::runtime_error("the reader of rank 1 broke");
    (void)layer->forward(Variable(pictures(0, 2, 2, 2)));
  });
  EXPECT_EQ(texts[1], "the reader of rank 1 broke");
  for (const std::size_t other : {std::size_t{0}, std::size_t{2}}) {
    test::expect_parts(texts[other], {"its program failed and left the group"});
  }
}

TEST(SyncBatchNorm, OneRowInAllIsRefusedOnEveryRank) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {
    const auto layer = std::make_shared<nn::BatchNorm2d>(2);
    EXPECT_EQ(synchronise_batch_norm(*layer, group), 1);
    const Tensor x = pictures(0, group.rank() == 1 ? 1 : 0, 1, 2);
    EXPECT_THROW((void)layer->forward(Variable(x)), std::invalid_argument);
  });
}

TEST(SyncBatchNorm, ModelsWithoutBatchNormAreLeftAlone) {
  test::run_ranks(2, [](comm::ProcessGroup& group) {
    const auto model = nn::make_model("mlp", 0);
    EXPECT_EQ(synchronise_batch_norm(*model, group), 0);
  });
}

}  // namespace
}  // namespace tutti::trainer
