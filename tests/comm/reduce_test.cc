#include <gtest/gtest.h>
#include <tutti/comm/reduce/reduce.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tutti::comm {
namespace {

constexpr ReduceOp kOperators[] = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max};

template <typename T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <typename T>
std::vector<ReduceOp> ops_of() {
  std::vector<ReduceOp> ops;
  for (int op = 0; op <= static_cast<int>(ReduceOp::BXor); ++op) {
    if (op <= static_cast<int>(ReduceOp::Max) || std::is_integral_v<T>) ops.push_back(static_cast<ReduceOp>(op));
  }
  return ops;
}

/// first (op) second as the header says, one value at a time.
template <typename T>
T reference(T first, T second, ReduceOp op) {
  if constexpr (kIsSmallFloat<T>) {
    return T(reference(static_cast<float>(first), static_cast<float>(second), op));
  } else if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::BAnd) return static_cast<T>(first & second);
    if (op == ReduceOp::BOr) return static_cast<T>(first | second);
    if (op == ReduceOp::BXor) return static_cast<T>(first ^ second);
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
  if constexpr (!kIsSmallFloat<T>) {
    if (op == ReduceOp::Min) return first < second ? first : second;
    return first > second ? first : second;
  }
}

/// Random bits: full integer range, so that sums and products wrap; floats of both signs.
template <typename T>
std::vector<T> random_values(std::size_t count, std::mt19937_64& random) {
  std::vector<T> values(count);
  for (T& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else if constexpr (kIsSmallFloat<T>) {
      value = T(std::uniform_real_distribution<float>(-8, 8)(random));
    } else {
      value = std::uniform_real_distribution<T>(-8, 8)(random);
    }
  }
  return values;
}

template <typename T>
class Reduce : public testing::Test {};
using AllTypes = testing::Types<float, double, Half, BFloat16, std::int8_t, std::int32_t, std::int64_t, std::uint8_t,
                                std::uint16_t, std::uint64_t>;
TYPED_TEST_SUITE(Reduce, AllTypes);

TYPED_TEST(Reduce, EqualsTheReferenceForAllOperatorsCountsAndSides) {
  using T = TypeParam;
  std::mt19937_64 random(7);
  for (const ReduceOp op : ops_of<T>()) {
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
  constexpr std::size_t kRoom = 128;
  std::mt19937_64 random(8);
  for (const std::size_t count : {300, 20'011}) {  // long ones begin where the target is aligned
    const std::size_t bytes = count * sizeof(T);
    const auto mine = random_values<T>(count, random);
    const auto theirs = random_values<T>(count, random);
    for (const std::size_t offset : {std::size_t{1}, sizeof(T), 3 * sizeof(T), 64 - sizeof(T), std::size_t{64}}) {
      SCOPED_TRACE(std::to_string(count) + " at " + std::to_string(offset));
      std::vector<std::byte> target(bytes + kRoom, std::byte{0xA5}), incoming(bytes + kRoom);
      std::memcpy(target.data() + offset, mine.data(), bytes);
      std::memcpy(incoming.data() + 3, theirs.data(), bytes);
      reduce_into(target.data() + offset, incoming.data() + 3, count, DTypeOf<T>::value, ReduceOp::Sum, false);
      for (std::size_t i = 0; i < offset; ++i) ASSERT_EQ(target[i], std::byte{0xA5}) << i;
      for (std::size_t i = bytes + offset; i < target.size(); ++i) ASSERT_EQ(target[i], std::byte{0xA5}) << i;
      for (std::size_t i = 0; i < count; ++i) {
        T found;
        std::memcpy(&found, target.data() + offset + i * sizeof(T), sizeof(T));
        ASSERT_EQ(found, reference(mine[i], theirs[i], ReduceOp::Sum)) << i;
      }
    }
  }
}

/// What reduce_all() promises: a chain of reduce_into(), divided at the end.
template <typename T>
std::vector<T> chain(const std::vector<std::vector<T>>& sources, ReduceOp op) {
  std::vector<T> result = sources.front();
  for (std::size_t i = 1; i < sources.size(); ++i)
    reduce_into(result.data(), sources[i].data(), result.size(), DTypeOf<T>::value, op, false);
  if (op == ReduceOp::Avg)
    scale_down(result.data(), result.size(), DTypeOf<T>::value, static_cast<int>(sources.size()));
  return result;
}

TYPED_TEST(Reduce, AllHasTheBitsOfAChainWhereverTheTargetsAre) {
  using T = TypeParam;
  std::mt19937_64 random(9);
  for (const ReduceOp op : ops_of<T>()) {
    if (!refusal(op, DTypeOf<T>::value).empty()) continue;
    for (const std::size_t rows : {1, 2, 3, 4, 7}) {
      for (const std::size_t count : {0, 1, 3, 17, 64, 257, 1031, 20'011}) {
        std::vector<std::vector<T>> data;
        for (std::size_t i = 0; i < rows; ++i) data.push_back(random_values<T>(count, random));
        const std::vector<T> expected = chain(data, op);
        auto buffers = data;
        std::vector<const std::byte*> sources;
        std::vector<std::byte*> in_place;
        for (auto& row : buffers) {
          in_place.push_back(reinterpret_cast<std::byte*>(row.data()));
          sources.push_back(in_place.back());
        }
        std::vector<T> apart(count + 2, T{});
        std::byte* const target = reinterpret_cast<std::byte*>(apart.data() + 1);
        reduce_all({&target, 1}, sources, count, DTypeOf<T>::value, op);
        EXPECT_EQ(apart.front(), T{}) << "one before the beginning";
        EXPECT_EQ(apart.back(), T{}) << "one past the end";
        EXPECT_EQ(std::vector<T>(apart.begin() + 1, apart.end() - 1), expected) << name(op) << " of " << rows;
        reduce_all(in_place, sources, count, DTypeOf<T>::value, op);
        for (const auto& row : buffers) ASSERT_EQ(row, expected) << name(op) << " of " << rows << " in place";
      }
    }
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
  for (const ReduceOp op : kOperators) {
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

/// All bits of the type, paired with special values and with random ones.
template <typename T>
class ReduceSmallFloat : public testing::Test {
 protected:
  ReduceSmallFloat() {
    std::mt19937 random(9);
    std::vector<T> others = {T(0.0f), T(-0.0f), T(1.0f), T(-INFINITY), T(INFINITY), T(NAN), T(65504.0f), T(0x1p-24f)};
    for (int i = 0; i < 4; ++i) others.push_back(T::from_bits(static_cast<std::uint16_t>(random())));
    for (const T other : others) {
      for (unsigned bits = 0; bits < 0x10000; ++bits) {
        lower.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
        higher.push_back(other);
      }
    }
  }

  static bool is_nan(T value) { return std::isnan(static_cast<float>(value)); }

  std::vector<T> lower, higher;
};
using SmallFloats = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(ReduceSmallFloat, SmallFloats);

TYPED_TEST(ReduceSmallFloat, RoundsTheFloatResultOnceForAllBits) {
  using T = TypeParam;
  for (const ReduceOp op : kOperators) {
    auto target = this->lower;
    reduce_into(target.data(), this->higher.data(), target.size(), DTypeOf<T>::value, op, false);
    for (std::size_t i = 0; i < target.size(); ++i) {
      const T expected = reference(this->lower[i], this->higher[i], op);
      if (this->is_nan(expected) && this->is_nan(target[i])) continue;  // which NaN is a matter of the processor
      ASSERT_EQ(target[i].bits(), expected.bits())
          << name(op) << " of bits " << this->lower[i].bits() << " and " << this->higher[i].bits();
    }
  }
}

TYPED_TEST(ReduceSmallFloat, BothPartnersOfAnExchangeGetTheSameBits) {
  using T = TypeParam;
  for (const ReduceOp op : kOperators) {
    auto at_lower = this->lower;
    auto at_higher = this->higher;
    reduce_into(at_lower.data(), this->higher.data(), at_lower.size(), DTypeOf<T>::value, op, false);
    reduce_into(at_higher.data(), this->lower.data(), at_lower.size(), DTypeOf<T>::value, op, true);
    EXPECT_EQ(at_lower, at_higher) << name(op);
  }
}

TYPED_TEST(ReduceSmallFloat, ScaleDownDividesInFloatAndRoundsOnce) {
  using T = TypeParam;
  for (const int divisor : {1, 2, 3, 7, 1000}) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{65536}}) {
      auto values = this->lower;
      scale_down(values.data(), count, DTypeOf<T>::value, divisor);
      for (std::size_t i = 0; i < count; ++i) {
        const T expected(static_cast<float>(this->lower[i]) / static_cast<float>(divisor));
        ASSERT_EQ(values[i].bits(), expected.bits()) << this->lower[i].bits() << " / " << divisor;
      }
      EXPECT_EQ(values[count], this->lower[count]) << "one past the end";
    }
  }
}

TYPED_TEST(ReduceSmallFloat, BitwiseOperatorsLeaveTheTargetAlone) {
  using T = TypeParam;
  for (const ReduceOp op : {ReduceOp::BAnd, ReduceOp::BOr, ReduceOp::BXor}) {
    auto target = this->lower;
    reduce_into(target.data(), this->higher.data(), target.size(), DTypeOf<T>::value, op, false);
    EXPECT_EQ(target, this->lower);
  }
}

TEST(ReduceRounded, RoundsTheSumOnceAndKeepsNoSignOfZero) {
  std::mt19937_64 random(10);
  for (const std::size_t rows : {1, 2, 3}) {
    for (const std::size_t count : {0, 1, 7, 8, 65, 1031, 5003}) {
      std::vector<std::vector<double>> data;
      for (std::size_t i = 0; i < rows; ++i) data.push_back(random_values<double>(count, random));
      for (auto& row : data)
        if (count > 6) row[6] = -0.0;
      std::vector<const std::byte*> sources;
      for (const auto& row : data) sources.push_back(reinterpret_cast<const std::byte*>(row.data()));
      const std::vector<double> sums = chain(data, ReduceOp::Sum);
      std::vector<float> shifted(rows + count + 1, 5), second(count + 1, 5);
      std::byte* const targets[] = {reinterpret_cast<std::byte*>(shifted.data() + rows),
                                    reinterpret_cast<std::byte*>(second.data())};
      reduce_rounded(targets, sources, count);
      EXPECT_EQ(shifted[rows - 1], 5) << "one before the beginning";
      const std::vector<float> first(shifted.begin() + static_cast<std::ptrdiff_t>(rows), shifted.end());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(first[i], static_cast<float>(sums[i])) << i << " of " << count;
      EXPECT_FALSE(count > 6 && std::signbit(first[6]));
      EXPECT_EQ(first[count], 5) << "one past the end";
      EXPECT_EQ(first, second);
    }
  }
}

TEST(ReduceBool, IsOrAndOrUnequalAndAlwaysZeroOrOne) {
  const auto expected = [](unsigned a, unsigned b, ReduceOp op) -> unsigned {
    if (op == ReduceOp::BXor) return (a != 0) != (b != 0);
    if (op == ReduceOp::Sum || op == ReduceOp::Max || op == ReduceOp::BOr) return a != 0 || b != 0;
    return a != 0 && b != 0;
  };
  std::vector<std::uint8_t> mine, theirs;
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      mine.push_back(static_cast<std::uint8_t>(a));
      theirs.push_back(static_cast<std::uint8_t>(b));
    }
  }
  for (int rest = 0; rest < 17; ++rest) mine.push_back(1), theirs.push_back(static_cast<std::uint8_t>(rest % 2));
  for (const ReduceOp op :
       {ReduceOp::Sum, ReduceOp::Max, ReduceOp::BOr, ReduceOp::Prod, ReduceOp::Min, ReduceOp::BAnd, ReduceOp::BXor}) {
    auto target = mine;
    reduce_into(target.data(), theirs.data(), target.size(), DType::Bool, op, false);
    for (std::size_t i = 0; i < target.size(); ++i)
      ASSERT_EQ(unsigned{target[i]}, expected(mine[i], theirs[i], op))
          << name(op) << " of " << unsigned{mine[i]} << " and " << unsigned{theirs[i]};
  }
}

}  // namespace
}  // namespace tutti::comm
