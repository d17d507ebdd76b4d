#include <gtest/gtest.h>
#include <tutti/tensor/random.h>

#include <algorithm>
#include <random>
#include <stdexcept>

namespace tutti::tensor {
namespace {

using Order = std::vector<std::int64_t>;

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

}  // namespace
}  // namespace tutti::tensor
