// Reproducible training: the same bits of parameters for any number of ranks, buckets, transports and threads.

#include <gtest/gtest.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tests/trainer/scene_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/task.h>

namespace tutti::trainer {
namespace {

/// Of a training with options.batch_size samples a step on all ranks together.
RunReport report_of(TrainOptions options, int ranks, test::Net net = test::Net::Inproc) {
  options.batch_size /= ranks;
  return train_on(ranks, options, {.net = net}).reports[0];
}

/// The hash of its parameters.
std::string sha256_of(const TrainOptions& options, int ranks) { return report_of(options, ranks).parameter_sha256; }

class Reproducible : public SmallTraining {
 protected:
  /// 250 samples, which do not go round, in steps of 24 on all ranks.
  Reproducible() : SmallTraining(250, 40, 2, 24) { options_.reproducible = true; }
};

using Change = std::function<void(TrainOptions&)>;

/// A training that must end with the bits of that on one rank.
struct Other {
  int ranks;
  Change change = [](TrainOptions&) {};
  test::Net net = test::Net::Inproc;
  int threads = 1;
};

struct Variant {
  const char* name;
  Change change;  // of both trainings
  std::vector<Other> others;
};

void nothing(TrainOptions&) {}

/// Another model on fewer samples: convolutions take their time under a sanitizer.
Change few_samples_of(const char* model) {
  return [model](TrainOptions& options) {
    write_small_mnist(options.data, 72, 40);
    options.model = model;
    options.epochs = 1;
  };
}

Change micro_batches_of(int samples) {
  return [samples](TrainOptions& options) { options.micro_batch_size = samples; };
}

void small_buckets(TrainOptions& options) { options.buckets = {.first_bucket_bytes = 64, .bucket_cap_bytes = 16384}; }

void clipped_sgd(TrainOptions& options) {
  options.optimizer = "sgd";
  options.learning_rate = 0.1;
  options.clip_norm = 0.3;
}

void sharded(TrainOptions& options) { options.shard_optimizer = true; }

const std::vector<Other> kMicroBatches = {{1, micro_batches_of(1)},
                                          {1, micro_batches_of(5)},
                                          {1, micro_batches_of(12)},
                                          {1, micro_batches_of(100)},
                                          {3, micro_batches_of(3)}};

class SameBits : public Reproducible, public ::testing::WithParamInterface<Variant> {};

TEST_P(SameBits, AsOnOneRank) {
  TrainOptions one = options_;
  GetParam().change(one);
  const RunReport expected = report_of(one, 1);
  ASSERT_EQ(expected.parameter_sha256.size(), 64u);
  const double rounding = one.model == "autoencoder" ? 1e-12 : 0;  // of means over pixels
  for (const Other& other : GetParam().others) {
    TrainOptions changed = one;
    other.change(changed);
    tensor::set_num_threads(other.threads);
    SCOPED_TRACE(std::to_string(other.ranks) + " ranks, " + test::name(other.net) + ", micro-batches of " +
                 std::to_string(changed.micro_batch_size));
    const RunReport report = report_of(changed, other.ranks, other.net);
    EXPECT_EQ(report.parameter_sha256, expected.parameter_sha256);
    for (std::size_t e = 0; e < expected.epochs.size(); ++e) {
      EXPECT_NEAR(report.epochs.at(e).train_loss, expected.epochs[e].train_loss, rounding) << e;
    }
    tensor::set_num_threads(1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Reproducible, SameBits,
    ::testing::Values(
        Variant{"Mlp", nothing, {{2}, {3}, {4}, {6}, {8}, {12}}},
        Variant{"FiveAndSevenRanks", [](auto& o) { o.batch_size = 35; }, {{5}, {7}}},
        Variant{
            "RanksThatDoNotDivideTheBatch", [](auto& o) { o.global_batch_size = 23; }, {{2}, {3}, {4, sharded}, {7}}},
        Variant{"MoreRanksThanSamples", [](auto& o) { o.global_batch_size = 3; }, {{5}}},
        Variant{"Autoencoder", few_samples_of("autoencoder"), {{2}, {3}}},
        Variant{"Lenet5", few_samples_of("lenet5"), {{2}, {3}}},
        Variant{"CnnWithDropout", few_samples_of("cnn"), {{2}, {3}, {4}}},
        Variant{"Threads", few_samples_of("cnn"), {{.ranks = 1, .threads = 3}}},
        Variant{"ShardedOptimizer", nothing, {{2, sharded}, {3, sharded}, {4, sharded}}},
        Variant{"MicroBatchesOfMlp", few_samples_of("mlp"), kMicroBatches},
        Variant{"MicroBatchesOfCnn", few_samples_of("cnn"), kMicroBatches},
        Variant{"SizesOfBuckets", nothing, {{3}, {3, small_buckets}, {1, small_buckets}}},
        Variant{"Clipping", clipped_sgd, {{2}, {3}}},
        Variant{"Workers", nothing, {{2, [](auto& o) { o.workers = 2; }}}},
        Variant{"Transports",
                nothing,
                {{.ranks = 4, .net = test::Net::Tcp},
                 {.ranks = 4, .net = test::Net::Shm},
                 {.ranks = 4, .net = test::Net::Mixed}}},
        Variant{"SamplesAsTheyAre", [](auto& o) { o.padding = false; }, {{3}, {4}}},
        Variant{"WithoutTheLastSamples", [](auto& o) { o.drop_last = true; }, {{3}, {4}}},
        Variant{"WithoutTheLastUndivided", [](auto& o) { o.global_batch_size = 23, o.drop_last = true; }, {{3}, {5}}}),
    [](const auto& test) { return std::string(test.param.name); });

// 84 pictures: of five ranks two have one picture in the last step, and the others none.
TEST_F(Reproducible, WithBatchNorm) {
  for (const char* model : {"resnet18", "efficientnet_b0"}) {
    TrainOptions pictures = small_mercer(folder_ / "pictures", model);
    pictures.global_batch_size = 41;
    pictures.reproducible = true;
    const std::string one = sha256_of(pictures, 1);
    for (const int ranks : {2, 5}) EXPECT_EQ(sha256_of(pictures, ranks), one) << model << " on " << ranks << " ranks";
  }
}

TEST_F(Reproducible, BatchNormNeedsAllSamplesOfAStepAtOnce) {
  options_.model = "resnet18";
  options_.micro_batch_size = 4;
  const std::string text = error_of([&] { sha256_of(options_, 1); });
  test::expect_parts(text, {"resnet18 has batch norm"});
}

}  // namespace
}  // namespace tutti::trainer
