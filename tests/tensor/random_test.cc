#include <gtest/gtest.h>
#include <tutti/tensor/keyed_stream.h>
#include <tutti/tensor/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>

namespace tutti::tensor {
namespace {

using Order = std::vector<std::int64_t>;
using Block = std::array<std::uint32_t, 4>;

TEST(Random, TwisterIsTheStandardOne) {
  for (const std::uint32_t seed : {0u, 1u, 5489u, 4294967295u}) {
    Mt19937 ours(seed);
    std::mt19937 reference(seed);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(ours.next(), reference()) << "seed " << seed << " draw " << i;
  }
}

TEST(Random, RandpermEqualsTorch) {
  EXPECT_EQ(randperm(10, 0), (Order{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(randperm(10, 1), (Order{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}));
  EXPECT_EQ(randperm(10, 42), (Order{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  const Order mnist = randperm(60000, 3);
  EXPECT_EQ(Order(mnist.begin(), mnist.begin() + 5), (Order{38986, 46111, 53123, 54054, 9664}));
  EXPECT_EQ(Order(mnist.end() - 5, mnist.end()), (Order{48743, 53037, 59646, 49374, 32804}));
}

TEST(Random, RandpermOfFewAndOfTooMany) {
  EXPECT_TRUE(randperm(0, 7).empty());
  EXPECT_EQ(randperm(1, 7), Order{0});
  EXPECT_THROW(randperm(-1, 7), std::invalid_argument);
  EXPECT_THROW(randperm(std::int64_t{1} << 40, 7), std::invalid_argument);
}

TEST(Random, RandpermIsAPermutation) {
  Order order = randperm(1013, 99);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<std::int64_t>(i));
}

TEST(Random, UniformStaysInItsRange) {
  Mt19937 generator(3);
  for (int i = 0; i < 10000; ++i) {
    const float value = generator.uniform(-0.25F, 0.5F);
    ASSERT_GE(value, -0.25F);
    ASSERT_LT(value, 0.5F);
  }
}

// The known answers that the authors publish with their library (Random123, kat_vectors).
TEST(KeyedStream, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(KeyedStream, GoesThroughBlockAfterBlock) {
  KeyedStream stream(0, 0);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t expected : philox({block, 0, 0, 0}, {0, 0})) EXPECT_EQ(stream.next(), expected);
  }
}

TEST(KeyedStream, KeysAndPurposesGiveDifferentStreams) {
  std::set<std::uint32_t> firsts;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::uint64_t sample = 0; sample < 4; ++sample) {
        for (std::uint64_t purpose = 0; purpose < 4; ++purpose) {
          firsts.insert(KeyedStream(sample_key(seed, epoch, sample), purpose).next());
        }
      }
    }
  }
  EXPECT_EQ(firsts.size(), 256U);
}

TEST(KeyedStream, NumbersStayInTheirRangeAndSpreadOverIt) {
  KeyedStream stream(sample_key(1, 2, 3), 4);
  constexpr int kDraws = 40000;
  double sum = 0;
  std::array<int, 4> counts{};
  for (int i = 0; i < kDraws; ++i) {
    const float value = stream.uniform();
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += value;
    ++counts.at(stream.below(4));
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);                                // five standard deviations are 0.007
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 4, 450);  // five are 433
}

}  // namespace
}  // namespace tutti::tensor
