#include <tutti/trainer/data_parallel/hooks/top_k.h>

#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

// The bits of a magnitude are in the order of the magnitudes, with NaN above infinity.
std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu; }

struct Threshold {
  std::uint32_t bits = 0;  // of the smallest magnitude that is taken
  std::size_t equal = 0;   // how many of exactly that magnitude are taken
};

// The 31 bits are found from the top, eleven or ten at a time: among the numbers that share the bits found so far,
// those with the larger next digits are taken until `wanted` are reached.
Threshold threshold_of(std::span<const float> values, std::size_t wanted) {
  constexpr unsigned kBits = 11;
  constexpr std::array<unsigned, 3> kShifts = {20, 10, 0};
  Threshold found{.bits = 0, .equal = wanted};
  std::uint32_t mask = 0;  // of the bits found so far
  for (const unsigned shift : kShifts) {
    const std::uint32_t digit_mask = (shift == 20 ? (1u << kBits) : (1u << (kBits - 1))) - 1;
    std::array<std::size_t, 1u << kBits> counts{};
    for (const float value : values) {
      const std::uint32_t bits = magnitude_bits(value);
      if ((bits & mask) == found.bits) ++counts[(bits >> shift) & digit_mask];
    }
    std::uint32_t digit = digit_mask;
    for (; counts[digit] < found.equal; --digit) found.equal -= counts[digit];
    found.bits |= digit << shift;
    mask |= digit_mask << shift;
  }
  return found;
}

}  // namespace

void largest_magnitudes(std::span<const float> values, std::span<std::int32_t> indices) {
  if (indices.size() > values.size() || values.size() > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("largest_magnitudes: " + std::to_string(indices.size()) + " of " +
                                std::to_string(values.size()) + " values were asked for");
  }
  if (indices.size() == values.size()) return std::iota(indices.begin(), indices.end(), 0);
  if (indices.empty()) return;
  const Threshold threshold = threshold_of(values, indices.size());
  std::size_t equal = threshold.equal;
  std::size_t taken = 0;
  for (std::size_t i = 0; taken < indices.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    if (bits < threshold.bits || (bits == threshold.bits && equal == 0)) continue;
    if (bits == threshold.bits) --equal;
    indices[taken++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace tutti::trainer
