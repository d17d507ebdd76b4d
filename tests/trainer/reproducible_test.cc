// Reproducible training: the same bits of parameters for any number of ranks, buckets, transports and threads.

#include <gtest/gtest.h>
#include <tutti/nn/models/models.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/tests/trainer/train_on.h>
#include <tutti/trainer/train_loop.h>

namespace tutti::trainer {
namespace {

/// Of a training with options.batch_size samples a step on all ranks together.
RunReport report_of(TrainOptions options, int ranks, test::Net net = test::Net::Inproc, int threads = 1) {
  options.batch_size /= ranks;
  return train_on(ranks, options, threads, net).reports[0];
}

std::string sha256_of(const TrainOptions& options, int ranks, test::Net net = test::Net::Inproc, int threads = 1) {
  return report_of(options, ranks, net, threads).parameter_sha256;
}

class Reproducible : public ::testing::Test {
 protected:
  Reproducible() { write_small_mnist(folder_ / "data", 250, 40); }

  TrainOptions options(const std::string& model) const {
    TrainOptions options;
    options.data = folder_ / "data";
    options.model = model;
    options.epochs = 2;
    options.batch_size = 24;  // of all ranks
    options.reproducible = true;
    return options;
  }

  /// Of 72 samples: convolutions take their time under a sanitizer.
  TrainOptions small_cnn() const {
    write_small_mnist(folder_ / "few", 72, 40);
    TrainOptions cnn = options("cnn");
    cnn.data = folder_ / "few";
    cnn.epochs = 1;
    return cnn;
  }

  TemporaryFolder folder_;
};

TEST_F(Reproducible, MlpHasTheSameBitsOnOneToTwelveRanks) {
  const std::string one = sha256_of(options("mlp"), 1);
  ASSERT_EQ(one.size(), 64u);
  for (const int ranks : {2, 3, 4, 6, 8, 12}) EXPECT_EQ(sha256_of(options("mlp"), ranks), one) << ranks << " ranks";
}

TEST_F(Reproducible, FiveAndSevenRanksAreAsGood) {
  TrainOptions odd = options("mlp");
  odd.batch_size = 35;
  const std::string one = sha256_of(odd, 1);
  for (const int ranks : {5, 7}) EXPECT_EQ(sha256_of(odd, ranks), one) << ranks << " ranks";
}

TEST_F(Reproducible, AutoencoderAndLenetHaveTheSameBits) {
  for (const char* const model : {"autoencoder", "lenet5"}) {
    TrainOptions some = small_cnn();
    some.model = model;
    const std::string one = sha256_of(some, 1);
    for (const int ranks : {2, 3}) EXPECT_EQ(sha256_of(some, ranks), one) << model << " on " << ranks << " ranks";
  }
}

// What nobody asked for: the number of ranks does not show where it need not.
TEST_F(Reproducible, IsTheDefaultWhereSamplesGoRound) {
  write_small_mnist(folder_ / "data", 240, 40);
  TrainOptions plain = options("mlp");
  plain.reproducible.reset();
  const std::string one = sha256_of(plain, 1);
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(sha256_of(plain, ranks), one) << ranks << " ranks";
  plain.reproducible = false;
  EXPECT_NE(sha256_of(plain, 1), one) << "--no-reproducible has other sums";
}

TEST_F(Reproducible, AShardedOptimizerChangesNothing) {
  TrainOptions sharded = options("mlp");
  const std::string one = sha256_of(sharded, 1);
  sharded.shard_optimizer = true;
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(sha256_of(sharded, ranks), one) << ranks << " ranks";
}

TEST_F(Reproducible, MicroBatchesChangeNothing) {
  for (const char* const model : {"mlp", "cnn"}) {
    TrainOptions whole = small_cnn();
    whole.model = model;
    const std::string expected = sha256_of(whole, 1);
    for (const int size : {1, 5, 12, 100}) {
      whole.micro_batch_size = size;
      EXPECT_EQ(sha256_of(whole, 1), expected) << model << ", " << size << " at once";
    }
    whole.micro_batch_size = 3;
    EXPECT_EQ(sha256_of(whole, 3), expected) << model << " on 3 ranks";
  }
}

TEST_F(Reproducible, LossesAreTheSameToo) {
  std::vector<std::vector<double>> losses;
  for (const int ranks : {1, 3}) {
    losses.emplace_back();
    for (const EpochReport& epoch : report_of(options("mlp"), ranks).epochs) losses.back().push_back(epoch.train_loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(Reproducible, CnnWithDropoutHasTheSameBitsOnOneToFourRanks) {
  const TrainOptions cnn = small_cnn();
  const std::string one = sha256_of(cnn, 1);
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(sha256_of(cnn, ranks), one) << ranks << " ranks";
}

TEST_F(Reproducible, SizesOfBucketsChangeNothing) {
  TrainOptions small = options("mlp");
  const std::string whole = sha256_of(small, 3);
  small.buckets = {.first_bucket_bytes = 64, .bucket_cap_bytes = 16384};
  EXPECT_EQ(sha256_of(small, 3), whole);
  EXPECT_EQ(sha256_of(small, 1), whole);
}

TEST_F(Reproducible, TransportsChangeNothing) {
  const std::string inproc = sha256_of(options("mlp"), 2);
  EXPECT_EQ(sha256_of(options("mlp"), 4, test::Net::Tcp), inproc);
  EXPECT_EQ(sha256_of(options("mlp"), 4, test::Net::Shm), inproc);
  EXPECT_EQ(sha256_of(options("mlp"), 4, test::Net::Mixed), inproc);
}

TEST_F(Reproducible, ThreadsChangeNothing) {
  const TrainOptions cnn = small_cnn();
  const std::string one = sha256_of(cnn, 1);
  tensor::set_num_threads(3);
  const std::string three = sha256_of(cnn, 1);
  tensor::set_num_threads(1);
  EXPECT_EQ(three, one);
}

TEST_F(Reproducible, SamplesThatDoNotGoRoundChangeNothing) {
  for (const bool drop_last : {false, true}) {
    TrainOptions uneven = options("mlp");
    uneven.drop_last = drop_last;
    uneven.padding = false;
    if (drop_last) uneven.padding = true;
    const std::string one = sha256_of(uneven, 1);
    for (const int ranks : {3, 4}) EXPECT_EQ(sha256_of(uneven, ranks), one) << ranks << " ranks";
  }
}

TEST_F(Reproducible, BatchNormIsRefused) {
  try {
    sha256_of(options("resnet18"), 1);
    ADD_FAILURE() << "batch norm was accepted";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("resnet18 has batch norm"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti::trainer
