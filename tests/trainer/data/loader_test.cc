#include <gtest/gtest.h>
#include <tutti/tensor/keyed_stream.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/digits.h>
#include <tutti/trainer/data/loader.h>

#include <bit>
#include <map>
#include <set>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kPixels = 28 * 28;

std::shared_ptr<const Sampler> shuffled(std::int64_t count) {
  return std::make_shared<DistributedSampler>(SamplerOptions{.count = count, .seed = 5});
}

// Gives the indices it was made with, whatever the epoch.
class FixedSampler : public Sampler {
 public:
  explicit FixedSampler(std::vector<std::int64_t> order) : order_(std::move(order)) {}
  std::vector<std::int64_t> indices(std::int64_t) const override { return order_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(order_.size()); }

 private:
  std::vector<std::int64_t> order_;
};

void expect_row(const Batch& batch, std::int64_t row, const ImageDataset& data, std::int64_t index) {
  ASSERT_EQ(batch.y.data<std::int64_t>()[row], data.labels.data<std::int64_t>()[index]);
  const std::uint8_t* const bytes = data.images.data<std::uint8_t>() + index * kPixels;
  const float* const values = batch.x.data<float>() + row * kPixels;
  for (std::int64_t p = 0; p < kPixels; ++p) {
    ASSERT_EQ(values[p], static_cast<float>(bytes[p]) / 255.0F) << "sample " << index << " pixel " << p;
  }
}

class LoaderThreads : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options(std::int64_t batch_size) const {
    return {.batch_size = batch_size, .threads = GetParam(), .prefetch = 3, .seed = 9};
  }
};

TEST_P(LoaderThreads, GivesTheSamplersOrderAndKeysInEveryEpoch) {
  const ImageDataset data = generate_digits(Split::Train, 0, 103);
  const auto sampler = shuffled(103);
  Loader loader(data, sampler, options(8));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto order = sampler->indices(epoch);
    loader.begin_epoch(epoch);
    std::int64_t seen = 0;
    std::int64_t number = 0;
    for (Batch batch; loader.next(batch); ++number) {
      EXPECT_EQ(batch.number, number);
      EXPECT_EQ(batch.count, number < 12 ? 8 : 7);
      ASSERT_EQ(batch.x.shape(), (tensor::Shape{batch.count, 28, 28, 1}));
      ASSERT_EQ(batch.y.shape(), (tensor::Shape{batch.count}));
      ASSERT_EQ(batch.keys.shape(), (tensor::Shape{batch.count}));
      EXPECT_TRUE(batch.x.is_contiguous());
      for (std::int64_t row = 0; row < batch.count; ++row, ++seen) {
        const std::int64_t sample = order[static_cast<std::size_t>(seen)];
        expect_row(batch, row, data, sample);
        ASSERT_EQ(std::bit_cast<std::uint64_t>(batch.keys.data<std::int64_t>()[row]),
                  tensor::sample_key(9, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample)));
      }
    }
    EXPECT_EQ(seen, 103);
    EXPECT_EQ(number, 13);
  }
}

TEST_P(LoaderThreads, MemoryIsUsedAgainButNeverUnderABatchThatWasKept) {
  const ImageDataset data = generate_digits(Split::Train, 0, 400);
  const auto sampler = shuffled(400);
  Loader loader(data, sampler, options(4));
  loader.begin_epoch(0);
  std::set<const void*> memory;
  Batch kept;
  for (Batch batch; loader.next(batch);) {
    memory.insert(batch.x.raw());
    if (batch.number == 5) {
      kept = batch;
    }
  }
  EXPECT_LE(memory.size(), 5u);  // prefetch + 1, and one for the batch that was kept
  const auto order = sampler->indices(0);
  for (std::int64_t row = 0; row < 4; ++row) {
    expect_row(kept, row, data, order[static_cast<std::size_t>(20 + row)]);
  }
}

TEST_P(LoaderThreads, AnErrorReachesTheCallerAtItsBatch) {
  Loader loader(generate_digits(Split::Train, 0, 10),
                std::make_shared<FixedSampler>(std::vector<std::int64_t>{0, 1, 2, 3, 99, 5}), options(2));
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.begin_epoch(epoch);
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    EXPECT_TRUE(loader.next(batch));
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(error_of([&] { loader.next(batch); }),
                "data set 'generated digits train': the sampler asks for sample 99, but there are only samples 0 to 9");
      EXPECT_FALSE(batch.x.defined());
    }
  }
}

TEST_P(LoaderThreads, AnEpochMayBeLeftAndTheLoaderDestroyedInTheMiddle) {
  const ImageDataset data = generate_digits(Split::Train, 0, 200);
  const auto sampler = shuffled(200);
  for (int round = 0; round < 20; ++round) {
    Loader loader(data, sampler, options(4));
    loader.begin_epoch(0);
    Batch batch;
    for (int i = 0; i < round; ++i) {
      ASSERT_TRUE(loader.next(batch));
    }
    loader.begin_epoch(1);
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch.number, 0);
    expect_row(batch, 0, data, sampler->indices(1).front());
  }
}

TEST_P(LoaderThreads, NothingToGive) {
  const ImageDataset data = generate_digits(Split::Train, 0, 10);
  Loader never_begun(data, shuffled(10), options(4));
  Batch batch;
  EXPECT_FALSE(never_begun.next(batch));
  Loader empty(data, std::make_shared<EvaluationSampler>(1, 4, 0), options(4));
  empty.begin_epoch(0);
  EXPECT_FALSE(empty.next(batch));
  EXPECT_FALSE(empty.next(batch));
  EXPECT_FALSE(batch.x.defined());
}

TEST_P(LoaderThreads, ABatchLargerThanTheSetIsThatSet) {
  Loader loader(generate_digits(Split::Train, 0, 10), shuffled(10), options(64));
  loader.begin_epoch(0);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.count, 10);
  EXPECT_EQ(batch.x.shape(), (tensor::Shape{10, 28, 28, 1}));
  EXPECT_FALSE(loader.next(batch));
}

// What one epoch makes of each sample, on any number of ranks.
std::map<std::int64_t, std::vector<float>> augmented_samples(const LoaderOptions& options, int ranks) {
  std::map<std::int64_t, std::vector<float>> samples;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto sampler =
        std::make_shared<DistributedSampler>(SamplerOptions{.count = 40, .replicas = ranks, .rank = rank, .seed = 5});
    Loader loader(generate_digits(Split::Train, 0, 40), sampler, options);
    loader.begin_epoch(2);
    const auto order = sampler->indices(2);
    std::size_t seen = 0;
    for (Batch batch; loader.next(batch);) {
      for (std::int64_t row = 0; row < batch.count; ++row) {
        const float* const values = batch.x.data<float>() + row * kPixels;
        samples[order[seen++]].assign(values, values + kPixels);
      }
    }
  }
  return samples;
}

TEST_P(LoaderThreads, AugmentationIsTheSameOnAnyNumberOfRanks) {
  LoaderOptions augmenting = options(8);
  const auto plain = augmented_samples(augmenting, 1);
  augmenting.augmentation = {.flip_horizontal = true, .flip_vertical = true, .rotate = true};
  const auto one = augmented_samples(augmenting, 1);
  EXPECT_EQ(one.size(), 40u);
  int changed = 0;
  for (const auto& [sample, values] : one) changed += values != plain.at(sample) ? 1 : 0;
  EXPECT_GT(changed, 30);
  augmenting.batch_size = 2;
  EXPECT_EQ(augmented_samples(augmenting, 4), one);
  augmenting.seed = 10;
  EXPECT_NE(augmented_samples(augmenting, 4), one);
}

INSTANTIATE_TEST_SUITE_P(Threads, LoaderThreads, ::testing::Values(0, 1, 3),
                         [](const auto& parameter) { return std::to_string(parameter.param); });

TEST(Loader, ErrorsNameTheOption) {
  const ImageDataset data = generate_digits(Split::Train, 0, 10);
  const auto make = [&](const LoaderOptions& options) {
    return error_of([&] { Loader(data, shuffled(10), options); });
  };
  EXPECT_EQ(make({.batch_size = 0}), "loader: batch_size is 0, expected 1 or more");
  EXPECT_EQ(make({.threads = -1}), "loader: threads is -1, expected 0 or more");
  EXPECT_EQ(make({.prefetch = 0}), "loader: prefetch is 0, expected 1 or more");
  EXPECT_EQ(error_of([&] { Loader(data, nullptr, {}); }), "loader: no sampler was given");
}

}  // namespace
}  // namespace tutti::trainer
