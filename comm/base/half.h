// Half and BFloat16: 16-bit floating point numbers as they travel and lie in memory.
//
// Half is IEEE 754 binary16 (5 bits of exponent, 10 of fraction; largest 65504), BFloat16 the upper half of a float (8
// and 7). They store and convert; arithmetic is done in float. Converting from float rounds to nearest, ties to even:
// too large numbers become infinite, small ones subnormal or zero, a NaN stays a NaN with its sign and as many of its
// upper payload bits as fit, quiet. Converting to float is exact.
//
// Values; all functions are pure. They expect the CPU's default rounding mode.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::comm {

class Half {
 public:
  constexpr Half() = default;
  constexpr explicit Half(float value) : bits_(round(value)) {}
  static constexpr Half from_bits(std::uint16_t bits) {
    Half result;
    result.bits_ = bits;
    return result;
  }

  constexpr std::uint16_t bits() const { return bits_; }
  constexpr explicit operator float() const {
    const std::uint32_t sign = (bits_ & 0x8000u) << 16;
    const std::uint32_t exponent = bits_ & 0x7C00u;
    std::uint32_t magnitude = ((bits_ & 0x7FFFu) << 13) + (112u << 23);
    if (exponent == 0x7C00u) magnitude += 112u << 23;
    if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, found by a subtraction that is exact
      magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + (1u << 23)) - 0x1p-14f);
    }
    return std::bit_cast<float>(sign | magnitude);
  }

  /// Compares bits: a NaN equals itself, -0 differs from +0. Convert to compare numbers.
  constexpr bool operator==(const Half&) const = default;

 private:
  static constexpr std::uint16_t round(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (all >> 16) & 0x8000u;
    const std::uint32_t magnitude = all & 0x7FFFFFFFu;
    std::uint32_t result = 0x7C00u;  // infinity
    if (magnitude > 0x7F800000u) {   // NaN
      result = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
    } else if (magnitude < (113u << 23)) {  // below 2^-14: adding 1/2 leaves the rounded multiple of 2^-24 at the end
      result =
          std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
    } else if (magnitude < (143u << 23)) {  // below 2^16; what rounds up to it becomes infinity by itself
      result = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return static_cast<std::uint16_t>(sign | result);
  }

  std::uint16_t bits_ = 0;
};

class BFloat16 {
 public:
  constexpr BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits_(round(value)) {}
  static constexpr BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 result;
    result.bits_ = bits;
    return result;
  }

  constexpr std::uint16_t bits() const { return bits_; }
  constexpr explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }

  /// Compares bits, as Half does.
  constexpr bool operator==(const BFloat16&) const = default;

 private:
  static constexpr std::uint16_t round(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (all & 0x7FFFFFFFu) > 0x7F800000u;
    return static_cast<std::uint16_t>(is_nan ? (all >> 16) | 0x40u : (all + 0x7FFFu + ((all >> 16) & 1u)) >> 16);
  }

  std::uint16_t bits_ = 0;
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace tutti::comm
