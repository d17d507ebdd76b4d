#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/digits.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kPixels = 28 * 28;

// FNV-1a, over the images and the labels.
std::uint64_t fingerprint(const ImageDataset& dataset) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  std::for_each_n(dataset.images.data<std::uint8_t>(), dataset.images.numel(), mix);
  std::for_each_n(dataset.labels.data<std::int64_t>(), dataset.count(),
                  [&](std::int64_t label) { mix(static_cast<std::uint64_t>(label)); });
  return hash;
}

TEST(Digits, SayThatTheyAreGenerated) {
  const ImageDataset train = generate_digits(Split::Train, 0, 50);
  EXPECT_TRUE(train.generated);
  EXPECT_EQ(train.name, "generated digits train");
  EXPECT_EQ(generate_digits(Split::Test, 0, 1).name, "generated digits test");
  EXPECT_EQ(train.classes, 10);
  EXPECT_EQ(train.images.shape(), (tensor::Shape{50, 28, 28, 1}));
  EXPECT_EQ(train.images.dtype(), tensor::DType::UInt8);
  EXPECT_EQ(train.labels.shape(), (tensor::Shape{50}));
}

// The same bytes on every machine, compiler and build type: these numbers may change only with the drawing itself.
TEST(Digits, AreTheSameBytesEverywhere) {
  EXPECT_EQ(fingerprint(generate_digits(Split::Train, 0, 500)), 16410266178413660200u);
  EXPECT_EQ(fingerprint(generate_digits(Split::Test, 0, 500)), 16138495627031614472u);
}

TEST(Digits, AnImageDependsOnSeedSplitAndIndexOnly) {
  const ImageDataset few = generate_digits(Split::Train, 3, 20);
  const ImageDataset many = generate_digits(Split::Train, 3, 60);
  EXPECT_TRUE(std::equal(few.images.data<std::uint8_t>(), few.images.data<std::uint8_t>() + 20 * kPixels,
                         many.images.data<std::uint8_t>()));
  EXPECT_NE(fingerprint(few), fingerprint(generate_digits(Split::Test, 3, 20)));
  EXPECT_NE(fingerprint(few), fingerprint(generate_digits(Split::Train, 4, 20)));
}

TEST(Digits, DefaultSizesAndBalancedClasses) {
  EXPECT_EQ(generate_digits(Split::Test).count(), kDigitsTestCount);
  const ImageDataset train = generate_digits(Split::Train);
  ASSERT_EQ(train.count(), kDigitsTrainCount);
  std::array<int, 10> counts{};
  for (std::int64_t i = 0; i < train.count(); ++i) {
    ++counts.at(static_cast<std::size_t>(train.labels.data<std::int64_t>()[i]));
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 2000, 200);
  }
}

// Neither trivial nor hopeless: telling digits by the nearest class mean, the simplest classifier, does much better
// than chance and much worse than a network.
TEST(Digits, AreHardButNotHopeless) {
  const ImageDataset train = generate_digits(Split::Train, 0, 4000);
  const ImageDataset test = generate_digits(Split::Test, 0, 1000);
  std::vector<double> means(10 * kPixels);
  std::array<double, 10> counts{};
  for (std::int64_t i = 0; i < train.count(); ++i) {
    const std::int64_t label = train.labels.data<std::int64_t>()[i];
    ++counts[static_cast<std::size_t>(label)];
    for (std::int64_t p = 0; p < kPixels; ++p) {
      means[static_cast<std::size_t>(label * kPixels + p)] += train.images.data<std::uint8_t>()[i * kPixels + p];
    }
  }
  int right = 0;
  for (std::int64_t i = 0; i < test.count(); ++i) {
    std::array<double, 10> distances{};
    for (std::size_t at = 0; at < means.size(); ++at) {
      const auto pixel = static_cast<std::int64_t>(at) % kPixels;
      const std::size_t label = at / kPixels;
      const double difference = test.images.data<std::uint8_t>()[i * kPixels + pixel] - means[at] / counts[label];
      distances[label] += difference * difference;
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += nearest == test.labels.data<std::int64_t>()[i] ? 1 : 0;
  }
  EXPECT_GT(right, 350);
  EXPECT_LT(right, 850);
}

TEST(Digits, RefuseANegativeCount) {
  EXPECT_EQ(error_of([] { generate_digits(Split::Train, 0, -5); }),
            "generated digits: count is -5, expected 0 or more");
  EXPECT_EQ(generate_digits(Split::Train, 0, 0).count(), 0);
}

}  // namespace
}  // namespace tutti::trainer
