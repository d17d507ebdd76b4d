#include <gtest/gtest.h>
#include <tutti/trainer/data/augmentation.h>

#include <set>
#include <tuple>
#include <vector>

namespace tutti::trainer {
namespace {

using Picture = std::vector<std::uint8_t>;

// The identity on bytes, with different numbers for each channel.
std::vector<float> number_table(std::int64_t channels) {
  std::vector<float> table;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (int byte = 0; byte < 256; ++byte) table.push_back(static_cast<float>(1000 * c + byte));
  }
  return table;
}

std::vector<int> placed(const Picture& picture, const PictureSize& size, const Placement& placement) {
  std::vector<float> values(picture.size());
  place_picture(picture.data(), size, placement, number_table(size.channels).data(), values.data());
  return {values.begin(), values.end()};
}

constexpr PictureSize kSmall{.height = 2, .width = 3, .channels = 1};
const Picture kNumbers{1, 2, 3,  //
                       4, 5, 6};

TEST(Augmentation, Flips) {
  EXPECT_EQ(placed(kNumbers, kSmall, {}), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(placed(kNumbers, kSmall, {.flip_horizontal = true}), (std::vector<int>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(placed(kNumbers, kSmall, {.flip_vertical = true}), (std::vector<int>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(placed(kNumbers, kSmall, {.flip_horizontal = true, .flip_vertical = true}),
            (std::vector<int>{6, 5, 4, 3, 2, 1}));
}

TEST(Augmentation, TurnsCounterclockwise) {
  const Picture square{1, 2, 3,  //
                       4, 5, 6,  //
                       7, 8, 9};
  const PictureSize size{.height = 3, .width = 3, .channels = 1};
  EXPECT_EQ(placed(square, size, {.quarter_turns = 1}), (std::vector<int>{3, 6, 9, 2, 5, 8, 1, 4, 7}));
  EXPECT_EQ(placed(square, size, {.quarter_turns = 2}), (std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(placed(square, size, {.quarter_turns = 3}), (std::vector<int>{7, 4, 1, 8, 5, 2, 9, 6, 3}));
  EXPECT_EQ(placed(square, size, {.flip_horizontal = true, .quarter_turns = 1}),
            (std::vector<int>{9, 6, 3, 8, 5, 2, 7, 4, 1}));  // turned, then flipped
}

TEST(Augmentation, ChannelsStayTogether) {
  for (const std::int64_t channels : {2, 3}) {
    const PictureSize size{.height = 1, .width = 2, .channels = channels};
    Picture picture;
    std::vector<int> expected;
    for (std::uint8_t i = 0; i < 2 * channels; ++i) picture.push_back(i);
    for (const std::int64_t pixel : {1, 0}) {
      for (std::int64_t c = 0; c < channels; ++c) expected.push_back(static_cast<int>(1000 * c + pixel * channels + c));
    }
    EXPECT_EQ(placed(picture, size, {.flip_horizontal = true}), expected);
  }
}

TEST(Augmentation, DrawsEveryPlacementAboutEquallyOften) {
  const Augmentation all{.flip_horizontal = true, .flip_vertical = true, .rotate = true};
  std::set<std::tuple<bool, bool, int>> seen;
  int horizontal = 0, quarter = 0;
  constexpr int kDraws = 4000;
  for (std::uint64_t key = 0; key < kDraws; ++key) {
    const Placement p = draw_placement(all, key);
    seen.insert({p.flip_horizontal, p.flip_vertical, p.quarter_turns});
    horizontal += p.flip_horizontal ? 1 : 0;
    quarter += p.quarter_turns == 1 ? 1 : 0;
  }
  EXPECT_EQ(seen.size(), 2u * 2 * 4);
  EXPECT_NEAR(horizontal, kDraws / 2, 200);
  EXPECT_NEAR(quarter, kDraws / 4, 200);
}

TEST(Augmentation, OnePartDoesNotChangeTheDrawsOfAnother) {
  const Augmentation all{.flip_horizontal = true, .flip_vertical = true, .rotate = true};
  for (std::uint64_t key = 0; key < 100; ++key) {
    const Placement whole = draw_placement(all, key);
    EXPECT_EQ(draw_placement({.flip_horizontal = true}, key).flip_horizontal, whole.flip_horizontal);
    EXPECT_EQ(draw_placement({.flip_horizontal = true}, key).quarter_turns, 0);
    EXPECT_EQ(draw_placement({.rotate = true}, key).quarter_turns, whole.quarter_turns);
    EXPECT_EQ(draw_placement({.flip_vertical = true}, key).flip_vertical, whole.flip_vertical);
    EXPECT_FALSE(draw_placement({}, key).flip_horizontal);
  }
}

}  // namespace
}  // namespace tutti::trainer
