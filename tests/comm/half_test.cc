// Half and BFloat16 against arithmetic in double that shares nothing with their bit operations.
#include <gtest/gtest.h>
#include <tutti/comm/base/half.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tutti::comm {
namespace {

struct HalfFormat {
  using Type = Half;
  static constexpr int kFractionBits = 10;
  static constexpr int kExponentBits = 5;
};
struct BFloat16Format {
  using Type = BFloat16;
  static constexpr int kFractionBits = 7;
  static constexpr int kExponentBits = 8;
};

/// What bits without sign mean, from the definition of the format; infinity and NaN excluded.
template <typename Format>
double magnitude_of(unsigned bits) {
  const int bias = (1 << (Format::kExponentBits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> Format::kFractionBits);
  const int fraction = static_cast<int>(bits & ((1u << Format::kFractionBits) - 1));
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - Format::kFractionBits);
  return std::ldexp(fraction + (1 << Format::kFractionBits), exponent - bias - Format::kFractionBits);
}

template <typename Format>
constexpr unsigned kInfinityBits = ((1u << Format::kExponentBits) - 1) << Format::kFractionBits;

/// Nearest to |value|, ties to even. Bits of neighbours differ by one, so bisecting bits bisects values; past the
/// largest finite value comes what would be the next one, and means infinity.
template <typename Format>
unsigned nearest_bits(double value) {
  unsigned low = 0, high = kInfinityBits<Format>;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (magnitude_of<Format>(middle) <= value ? low : high) = middle;
  }
  if (value >= magnitude_of<Format>(high)) return high;
  const double below = value - magnitude_of<Format>(low), above = magnitude_of<Format>(high) - value;
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

template <typename Format>
class SmallFloat : public testing::Test {};
using Formats = testing::Types<HalfFormat, BFloat16Format>;
TYPED_TEST_SUITE(SmallFloat, Formats);

TYPED_TEST(SmallFloat, AllBitsMeanWhatTheFormatSaysAndSurviveTheRoundTrip) {
  using T = typename TypeParam::Type;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
    const unsigned magnitude = bits & 0x7FFF;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (magnitude > kInfinityBits<TypeParam>) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const unsigned quiet = 1u << (TypeParam::kFractionBits - 1);
      ASSERT_EQ(T(value).bits(), bits | quiet);
      continue;
    }
    if (magnitude == kInfinityBits<TypeParam>) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_EQ(std::fabs(static_cast<double>(value)), magnitude_of<TypeParam>(magnitude)) << bits;
    }
    ASSERT_EQ(T(value).bits(), bits);
  }
}

TYPED_TEST(SmallFloat, RoundsToNearestTiesToEven) {
  using T = typename TypeParam::Type;
  const auto expect_nearest = [](float value) {
    const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
    const unsigned expected = sign | nearest_bits<TypeParam>(std::fabs(static_cast<double>(value)));
    ASSERT_EQ(T(value).bits(), expected) << std::hexfloat << value;
  };
  // Around every number and every middle between two neighbours: the middle itself and its float neighbours.
  for (unsigned bits = 0; bits < kInfinityBits<TypeParam>; ++bits) {
    const double here = magnitude_of<TypeParam>(bits), next = magnitude_of<TypeParam>(bits + 1);
    const auto middle = static_cast<float>((here + next) / 2);
    for (const float value : {middle, std::nextafter(middle, 0.0f), -std::nextafter(middle, INFINITY)}) {
      expect_nearest(value);
      if (this->HasFatalFailure()) return;
    }
  }
  std::mt19937 random(5);
  for (int i = 0; i < 300'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    expect_nearest(value);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(SmallFloat, NanKeepsItsSignAndIsQuiet) {
  using T = typename TypeParam::Type;
  for (const std::uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u, 0xFFC12345u}) {
    const T narrowed(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(narrowed))) << std::hex << bits;
    EXPECT_EQ(narrowed.bits() >> 15, bits >> 31);
    EXPECT_NE(narrowed.bits() & (1u << (TypeParam::kFractionBits - 1)), 0u);
  }
}

TEST(Half, KnownNumbers) {
  EXPECT_EQ(Half(1.0f).bits(), 0x3C00);
  EXPECT_EQ(Half(-2.0f).bits(), 0xC000);
  EXPECT_EQ(Half(65504.0f).bits(), 0x7BFF);
  EXPECT_EQ(Half(65519.0f).bits(), 0x7BFF);
  EXPECT_EQ(Half(65520.0f).bits(), 0x7C00) << "half way to what would be next: even, so infinity";
  EXPECT_EQ(Half(0x1p-24f).bits(), 1);
  EXPECT_EQ(Half(0x1p-25f).bits(), 0) << "half way to the smallest: even, so zero";
  EXPECT_EQ(BFloat16(1.0f).bits(), 0x3F80);
  EXPECT_EQ(BFloat16(3.14159265f).bits(), 0x4049);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits(), 0x7F80);
}

}  // namespace
}  // namespace tutti::comm
