// Generated sets: of the form that is promised, the same on every machine, neither trivial nor hopeless to learn.
#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/digits.h>
#include <tutti/trainer/data/scenes.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tutti::trainer {
namespace {

struct Kind {
  std::string name;
  ImageDataset (*generate)(Split split, std::uint64_t seed, std::int64_t count);
  std::int64_t side;
  std::int64_t channels;
  int classes;
  std::array<std::uint32_t, 2> checksums;  // of the first 210 pictures to train and to test on
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class Generated : public testing::TestWithParam<Kind> {
 protected:
  static ImageDataset generate(Split split, std::uint64_t seed, std::int64_t count) {
    return GetParam().generate(split, seed, count);
  }
  static std::vector<std::uint8_t> picture(const ImageDataset& set, std::int64_t i) {
    const std::int64_t bytes = GetParam().side * GetParam().side * GetParam().channels;
    const auto* const begin = set.images.data<std::uint8_t>() + i * bytes;
    return {begin, begin + bytes};
  }
};

TEST_P(Generated, HasItsFormAndSaysWhatItIs) {
  const auto& [name, function, side, channels, classes, checksums] = GetParam();
  const ImageDataset train = generate(Split::Train, 0, 50);
  EXPECT_TRUE(train.generated);
  EXPECT_EQ(train.name, "generated " + name + " train");
  EXPECT_EQ(generate(Split::Test, 0, 1).name, "generated " + name + " test");
  EXPECT_EQ(train.classes, classes);
  EXPECT_EQ(train.class_names.size(), name == "scenes" ? 21u : 0u);
  EXPECT_TRUE(std::is_sorted(train.class_names.begin(), train.class_names.end()));
  EXPECT_EQ(train.images.shape(), (tensor::Shape{50, side, side, channels}));
  EXPECT_EQ(train.images.dtype(), tensor::DType::UInt8);
  EXPECT_EQ(train.labels.shape(), (tensor::Shape{50}));
  for (std::int64_t i = 0; i < 50 && name == "scenes"; ++i) EXPECT_EQ(train.labels.data<std::int64_t>()[i], i % 21);
  EXPECT_EQ(generate(Split::Test, 0, 0).count(), 0);
  EXPECT_EQ(error_of([] { generate(Split::Test, 0, -5); }), "generated " + name + ": count is -5, expected 0 or more");
}

TEST_P(Generated, APictureDependsOnSeedSplitAndIndexOnly) {
  const ImageDataset few = generate(Split::Train, 3, 30);
  const ImageDataset many = generate(Split::Train, 3, 60);
  for (const std::int64_t i : {0, 7, 29}) EXPECT_EQ(picture(few, i), picture(many, i));
  EXPECT_NE(picture(few, 0), picture(generate(Split::Test, 3, 1), 0));
  EXPECT_NE(picture(few, 0), picture(generate(Split::Train, 4, 1), 0));
  EXPECT_NE(picture(many, 0), picture(many, 21));
}

// On every machine, with every compiler and build type: these numbers may change only with the drawing itself.
TEST_P(Generated, HasTheSameBytesEverywhere) {
  for (const Split split : {Split::Train, Split::Test}) {
    const ImageDataset set = generate(split, 0, 210);
    const uLong pictures = crc32_z(0, set.images.data<std::uint8_t>(), set.images.nbytes());
    EXPECT_EQ(crc32_z(pictures, static_cast<const Bytef*>(set.labels.raw()), set.labels.nbytes()),
              GetParam().checksums[split == Split::Train ? 0 : 1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Generated,
                         testing::Values(Kind{"digits", generate_digits, 28, 1, 10, {3554852493, 3204257133}},
                                         Kind{"scenes", generate_scenes, 64, 3, 21, {3323481367, 942430546}}),
                         [](const auto& kind) { return kind.param.name; });

TEST(Digits, DefaultSizesAndBalancedClasses) {
  EXPECT_EQ(generate_digits(Split::Test).count(), kDigitsTestCount);
  const ImageDataset train = generate_digits(Split::Train);
  ASSERT_EQ(train.count(), kDigitsTrainCount);
  std::array<int, 10> counts{};
  for (std::int64_t i = 0; i < train.count(); ++i) {
    ++counts.at(static_cast<std::size_t>(train.labels.data<std::int64_t>()[i]));
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 200);
}

using Features = std::vector<double>;

/// Each picture's bytes, added up to `count` numbers: byte i to number i % count.
std::vector<Features> features_of(const ImageDataset& set, std::size_t count) {
  const std::size_t bytes = set.images.nbytes() / static_cast<std::size_t>(set.count());
  std::vector<Features> all(static_cast<std::size_t>(set.count()), Features(count));
  for (std::size_t i = 0; i < set.images.nbytes(); ++i) {
    all[i / bytes][i % bytes % count] += set.images.data<std::uint8_t>()[i];
  }
  return all;
}

/// The part of `test` that the simplest classifier tells: the class whose mean over `train` is nearest.
double told_by_nearest_mean(const ImageDataset& train, const ImageDataset& test, std::size_t features) {
  const auto label_of = [](const ImageDataset& set, std::size_t i) {
    return static_cast<std::size_t>(set.labels.data<std::int64_t>()[i]);
  };
  std::vector<Features> means(static_cast<std::size_t>(train.classes), Features(features));
  std::vector<double> counts(means.size());
  const std::vector<Features> seen = features_of(train, features), asked = features_of(test, features);
  for (std::size_t i = 0; i < seen.size(); ++i) ++counts[label_of(train, i)];
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (std::size_t f = 0; f < features; ++f) means[label_of(train, i)][f] += seen[i][f] / counts[label_of(train, i)];
  }
  double right = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto distance = [&](const Features& mean) {
      double sum = 0;
      for (std::size_t f = 0; f < features; ++f) sum += (mean[f] - asked[i][f]) * (mean[f] - asked[i][f]);
      return sum;
    };
    const auto nearest = std::min_element(means.begin(), means.end(),
                                          [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    right += static_cast<std::size_t>(nearest - means.begin()) == label_of(test, i) ? 1 : 0;
  }
  return right / static_cast<double>(asked.size());
}

// Digits by their pixels, scenes by their mean colours: far better than chance, far worse than a network.
TEST(GeneratedSets, AreHardButNotHopeless) {
  const double digits =
      told_by_nearest_mean(generate_digits(Split::Train, 0, 4000), generate_digits(Split::Test, 0, 1000), 28 * 28);
  EXPECT_GT(digits, 0.35);
  EXPECT_LT(digits, 0.85);
  const double scenes =
      told_by_nearest_mean(generate_scenes(Split::Train, 0, 840), generate_scenes(Split::Test, 0, 210), 3);
  EXPECT_GT(scenes, 0.15);
  EXPECT_LT(scenes, 0.60);
}

}  // namespace
}  // namespace tutti::trainer
