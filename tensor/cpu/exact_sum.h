// Exact sums: float64 sums of float32 terms that have the same bits in whatever order, and in whatever parts, they are
// taken. What a gradient needs whose terms, the samples, are dealt to any number of ranks. Private to tensor/cpu.
//
// Idea. Float64 numbers from 32 to 64 lie 2^-47 apart. Adding a term to 48 therefore rounds the term to a multiple of
// 2^-47, and taking 48 away again is exact (rounded). Multiples of 2^-47 below 64 in size are float64 numbers, so sums
// of such terms have no rounding error, hence no order: of samples, of blocks, of threads and of ranks alike.
// A product of two float32 numbers is exact in float64. An accumulator that starts at 48 and is added to with rounding
// downwards (RoundDown) grows by the product's floor in steps of 2^-47, whatever else it holds: the same without a
// further instruction.
//
// Range: a sum, and each of its parts, must stay below 16 in size, as gradients of a mean over samples do. Beyond it
// the steps become coarser, the result is still a float64 sum, but its last bits may depend on the order.
// Error: less than 2^-47 = 7e-15 a term. Source of the idea: Demmel and Nguyen, "Fast Reproducible Floating-Point
// Summation", 2013, https://doi.org/10.1109/ARITH.2013.9 (pre-rounding; they find the step from the largest term).
#pragma once

#include <cfenv>

namespace tutti::tensor::cpu {

inline constexpr double kExactStart = 48;

/// The term as it enters an exact sum.
inline double rounded(double term) { return (term + kExactStart) - kExactStart; }

/// The same for losses, of which millions are added up: multiples of 2^-32, sums below 2^20.
inline double rounded_loss(double term) {
  constexpr double kStart = 3 << 19;
  return (term + kStart) - kStart;
}

/// A term below 2^35 in size in two parts, whose sums are exact each: multiples of 2^-16, and the rest in multiples of
/// 2^-50. For terms without a natural scale, 2^20 of them and more.
struct TwoParts {
  double high;
  double low;

  explicit TwoParts(double term) {
    constexpr double kHigh = 0x1.8p36;
    constexpr double kLow = 0x1.8p2;
    high = (term + kHigh) - kHigh;
    low = ((term - high) + kLow) - kLow;
  }
};

/// While one exists, this thread rounds downwards. Around calls of kernels only: a compiler does not know of it.
class RoundDown {
 public:
  RoundDown() : before_(std::fegetround()) { std::fesetround(FE_DOWNWARD); }
  ~RoundDown() { std::fesetround(before_); }
  RoundDown(const RoundDown&) = delete;
  RoundDown& operator=(const RoundDown&) = delete;

 private:
  int before_;
};

}  // namespace tutti::tensor::cpu
