#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/scenes.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kBytes = 64 * 64 * 3;

std::vector<std::uint8_t> picture(const ImageDataset& set, std::int64_t i) {
  const auto* const bytes = set.images.data<std::uint8_t>() + i * kBytes;
  return {bytes, bytes + kBytes};
}

TEST(Scenes, HaveTheFormOfUcMerced) {
  const ImageDataset train = generate_scenes(Split::Train, 0, 50);
  EXPECT_EQ(train.images.shape(), (tensor::Shape{50, 64, 64, 3}));
  EXPECT_TRUE(train.generated);
  EXPECT_EQ(train.name, "generated scenes train");
  EXPECT_EQ(train.classes, 21);
  ASSERT_EQ(train.class_names.size(), 21u);
  EXPECT_TRUE(std::is_sorted(train.class_names.begin(), train.class_names.end()));
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(train.labels.data<std::int64_t>()[i], i % 21);
  EXPECT_EQ(generate_scenes(Split::Test, 0, 0).count(), 0);
  EXPECT_EQ(error_of([] { generate_scenes(Split::Test, 0, -1); }), "generated scenes: count is -1, expected 0 or more");
}

TEST(Scenes, APictureDependsOnSeedSplitAndIndexOnly) {
  const ImageDataset few = generate_scenes(Split::Train, 3, 30);
  const ImageDataset many = generate_scenes(Split::Train, 3, 60);
  for (const std::int64_t i : {0, 7, 29}) EXPECT_EQ(picture(few, i), picture(many, i));
  EXPECT_NE(picture(few, 0), picture(generate_scenes(Split::Test, 3, 1), 0));
  EXPECT_NE(picture(few, 0), picture(generate_scenes(Split::Train, 4, 1), 0));
  EXPECT_NE(picture(many, 0), picture(many, 21));
}

TEST(Scenes, EveryMachinePaintsTheseBytes) {
  const ImageDataset set = generate_scenes(Split::Train, 0, 210);
  EXPECT_EQ(crc32_z(0, set.images.data<std::uint8_t>(), set.images.nbytes()), 1898416225u);
}

// Mean colours alone, the simplest of all models: far better than chance (0.05), far from right.
TEST(Scenes, ColoursTellPartOfTheClasses) {
  const auto mean_colours = [](const ImageDataset& set) {
    std::vector<std::array<double, 3>> means(static_cast<std::size_t>(set.count()));
    for (std::int64_t i = 0; i < set.count(); ++i) {
      const auto bytes = picture(set, i);
      for (std::size_t b = 0; b < bytes.size(); ++b) means[static_cast<std::size_t>(i)][b % 3] += bytes[b] / 4096.0;
    }
    return means;
  };
  const auto train = mean_colours(generate_scenes(Split::Train, 0, 840));
  const auto test = mean_colours(generate_scenes(Split::Test, 0, 210));
  std::array<std::array<double, 3>, 21> centers{};
  for (std::size_t i = 0; i < train.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) centers[i % 21][c] += train[i][c] / 40;
  }
  int right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const auto distance = [&](const std::array<double, 3>& center) {
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += (center[c] - test[i][c]) * (center[c] - test[i][c]);
      return sum;
    };
    const auto nearest = std::min_element(centers.begin(), centers.end(),
                                          [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    right += static_cast<std::size_t>(nearest - centers.begin()) == i % 21 ? 1 : 0;
  }
  EXPECT_GT(right, 210 * 15 / 100);
  EXPECT_LT(right, 210 * 60 / 100);
}

}  // namespace
}  // namespace tutti::trainer
