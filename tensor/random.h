// Random streams that do not depend on ranks or threads, and PyTorch's own generator where equality with it matters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tutti::tensor {

/// The 32-bit Mersenne Twister as torch.manual_seed seeds it; draws what PyTorch's CPU generator draws.
class Mt19937 {
 public:
  explicit Mt19937(std::uint64_t seed);
  std::uint32_t next();
  /// torch's float uniform: 24 bits of next().
  float uniform(float low, float high);

 private:
  std::array<std::uint32_t, 624> state_;
  int position_ = 624;
};

/// torch.randperm(n) with a generator seeded `seed` (n < 2^32 / 20).
std::vector<std::int64_t> randperm(std::int64_t n, std::uint64_t seed);

}  // namespace tutti::tensor
