#include <gtest/gtest.h>
#include <tutti/comm/reduce/reduce.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tutti::comm {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max};

/// first (op) second as the header says, one value at a time.
template <typename T>
T reference(T first, T second, ReduceOp op) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    const auto a = static_cast<std::uint64_t>(static_cast<U>(first));
    const auto b = static_cast<std::uint64_t>(static_cast<U>(second));
    if (op == ReduceOp::Sum || op == ReduceOp::Avg) return static_cast<T>(static_cast<U>(a + b));
    if (op == ReduceOp::Prod) return static_cast<T>(static_cast<U>(a * b));
  } else {
    if (op == ReduceOp::Sum || op == ReduceOp::Avg) return first + second;
    if (op == ReduceOp::Prod) return first * second;
    if (std::isnan(first)) return first;
    if (std::isnan(second)) return second;
  }
  if (op == ReduceOp::Min) return first < second ? first : second;
  return first > second ? first : second;
}

/// Random bits: full integer range, so that sums and products wrap; floats of both signs.
template <typename T>
std::vector<T> random_values(std::size_t count, std::mt19937_64& random) {
  std::vector<T> values(count);
  for (T& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      value = std::uniform_real_distribution<T>(-8, 8)(random);
    }
  }
  return values;
}

template <typename T>
class Reduce : public testing::Test {};
using AllTypes = testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(Reduce, AllTypes);

TYPED_TEST(Reduce, EqualsTheReferenceForAllOperatorsCountsAndSides) {
  using T = TypeParam;
  std::mt19937_64 random(7);
  for (const ReduceOp op : kOps) {
    for (const std::size_t count : {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 255, 256, 257, 1031}) {
      const auto mine = random_values<T>(count, random);
      const auto theirs = random_values<T>(count, random);
      for (const bool incoming_first : {false, true}) {
        auto target = mine;
        reduce_into(target.data(), theirs.data(), count, DTypeOf<T>::value, op, incoming_first);
        for (std::size_t i = 0; i < count; ++i) {
          const T expected = incoming_first ? reference(theirs[i], mine[i], op) : reference(mine[i], theirs[i], op);
          ASSERT_EQ(target[i], expected) << name(op) << " count " << count << " element " << i;
        }
      }
    }
  }
}

TYPED_TEST(Reduce, TakesUnalignedPointersAndStaysInside) {
  using T = TypeParam;
  constexpr std::size_t kCount = 300;
  constexpr std::size_t kBytes = kCount * sizeof(T);
  std::mt19937_64 random(8);
  const auto mine = random_values<T>(kCount, random);
  const auto theirs = random_values<T>(kCount, random);
  std::vector<std::byte> target(kBytes + 16, std::byte{0xA5}), incoming(kBytes + 16);
  std::memcpy(target.data() + 1, mine.data(), kBytes);
  std::memcpy(incoming.data() + 3, theirs.data(), kBytes);
  reduce_into(target.data() + 1, incoming.data() + 3, kCount, DTypeOf<T>::value, ReduceOp::Sum, false);
  EXPECT_EQ(target[0], std::byte{0xA5});
  for (std::size_t i = kBytes + 1; i < target.size(); ++i) EXPECT_EQ(target[i], std::byte{0xA5}) << i;
  for (std::size_t i = 0; i < kCount; ++i) {
    T found;
    std::memcpy(&found, target.data() + 1 + i * sizeof(T), sizeof(T));
    ASSERT_EQ(found, reference(mine[i], theirs[i], ReduceOp::Sum)) << i;
  }
}

template <typename T>
class ReduceFloat : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(ReduceFloat, FloatTypes);

TYPED_TEST(ReduceFloat, MinAndMaxGiveNanIfEitherIsNan) {
  using T = TypeParam;
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  constexpr std::size_t kCount = 133;  // whole blocks and a rest
  for (const ReduceOp op : {ReduceOp::Min, ReduceOp::Max}) {
    for (const bool incoming_first : {false, true}) {
      for (const bool nan_is_mine : {false, true}) {
        std::vector<T> target(kCount, nan_is_mine ? kNan : T{1});
        const std::vector<T> incoming(kCount, nan_is_mine ? T{1} : kNan);
        reduce_into(target.data(), incoming.data(), kCount, DTypeOf<T>::value, op, incoming_first);
        for (const T value : target) EXPECT_TRUE(std::isnan(value)) << name(op);
      }
    }
  }
}

TYPED_TEST(ReduceFloat, BothPartnersOfAnExchangeGetTheSameBits) {
  using T = TypeParam;
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T special[] = {T{0}, -T{0}, kNan, -kNan, kInfinity, -kInfinity, T{1}, T{-1}};
  std::vector<T> lower, higher;
  for (int repeat = 0; repeat < 3; ++repeat) {  // 192 values: each pair in a block and in a rest
    for (const T a : special) {
      for (const T b : special) {
        lower.push_back(a);
        higher.push_back(b);
      }
    }
  }
  lower.resize(lower.size() - 5);
  for (const ReduceOp op : kOps) {
    auto at_lower = lower;
    auto at_higher = higher;
    reduce_into(at_lower.data(), higher.data(), lower.size(), DTypeOf<T>::value, op, false);
    reduce_into(at_higher.data(), lower.data(), lower.size(), DTypeOf<T>::value, op, true);
    EXPECT_EQ(std::memcmp(at_lower.data(), at_higher.data(), lower.size() * sizeof(T)), 0) << name(op);
  }
}

TYPED_TEST(ReduceFloat, ScaleDownDivides) {
  using T = TypeParam;
  for (const std::size_t count : {0, 1, 15, 16, 17, 131}) {
    std::vector<T> values(count + 1, T{10});
    scale_down(values.data(), count, DTypeOf<T>::value, 3);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(values[i], T{10} / T{3}) << i;
    EXPECT_EQ(values[count], T{10}) << "one past the end";
  }
  std::vector<std::byte> unaligned(1 + 5 * sizeof(T));
  const std::vector<T> fives(5, T{5});
  std::memcpy(unaligned.data() + 1, fives.data(), 5 * sizeof(T));
  scale_down(unaligned.data() + 1, 5, DTypeOf<T>::value, 2);
  for (std::size_t i = 0; i < 5; ++i) {
    T found;
    std::memcpy(&found, unaligned.data() + 1 + i * sizeof(T), sizeof(T));
    EXPECT_EQ(found, T{2.5});
  }
}

TEST(ReduceInteger, SumsAndProductsWrap) {
  std::int32_t sum = std::numeric_limits<std::int32_t>::max();
  const std::int32_t one = 1;
  reduce_into(&sum, &one, 1, DType::Int32, ReduceOp::Sum, false);
  EXPECT_EQ(sum, std::numeric_limits<std::int32_t>::min());
  std::uint8_t product = 20;
  const std::uint8_t twenty = 20;
  reduce_into(&product, &twenty, 1, DType::UInt8, ReduceOp::Prod, false);
  EXPECT_EQ(product, 400 % 256);
}

TEST(ReduceInteger, MinAndMaxAreSigned) {
  std::int64_t value = -1;
  const std::int64_t one = 1;
  reduce_into(&value, &one, 1, DType::Int64, ReduceOp::Max, false);
  EXPECT_EQ(value, 1);
  std::uint8_t byte = 200;
  const std::uint8_t small = 100;
  reduce_into(&byte, &small, 1, DType::UInt8, ReduceOp::Max, false);
  EXPECT_EQ(byte, 200);
}

}  // namespace
}  // namespace tutti::comm
