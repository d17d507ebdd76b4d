#include <tutti/tensor/random.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

constexpr std::size_t kSize = 624;
constexpr std::size_t kShift = 397;

std::uint32_t twist(std::uint32_t high, std::uint32_t low, std::uint32_t far) {
  const std::uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return far ^ (mixed >> 1) ^ ((low & 1u) != 0 ? 0x9908b0dfu : 0u);
}

}  // namespace

// Matsumoto & Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998; seeding of the 2002 reference code.
Mt19937::Mt19937(std::uint64_t seed) {
  state_[0] = static_cast<std::uint32_t>(seed);
  for (std::uint32_t i = 1; i < kSize; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

std::uint32_t Mt19937::next() {
  if (position_ == static_cast<int>(kSize)) {
    for (std::size_t i = 0; i < kSize; ++i) {
      state_[i] = twist(state_[i], state_[(i + 1) % kSize], state_[(i + kShift) % kSize]);
    }
    position_ = 0;
  }
  std::uint32_t value = state_[static_cast<std::size_t>(position_++)];
  value ^= value >> 11;
  value ^= (value << 7) & 0x9d2c5680u;
  value ^= (value << 15) & 0xefc60000u;
  return value ^ (value >> 18);
}

// torch's kernel is compiled to a fused multiply-add: one rounding, not two.
float Mt19937::uniform(float low, float high) {
  const float unit = static_cast<float>(next() & 0xffffffu) * 0x1p-24f;
  return std::fma(unit, high - low, low);
}

std::vector<std::int64_t> randperm(std::int64_t n, std::uint64_t seed) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::uint32_t>::max() / 20;
  if (n < 0 || n >= kLimit) {
    throw std::invalid_argument("randperm(" + std::to_string(n) + "): n must be at least 0 and below " +
                                std::to_string(kLimit));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Mt19937 generator(seed);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + generator.next() % (order.size() - i)]);
  }
  return order;
}

}  // namespace tutti::tensor
