#include <tutti/nn/init.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

constexpr std::uint32_t kFloatBits = 0xffffff;  // torch draws the 24 low bits
constexpr float kFloatUnit = 0x1p-24F;

}  // namespace

void uniform(tensor::Tensor& values, double low, double high, tensor::Mt19937& generator) {
  if (values.dtype() != tensor::DType::Float32 || !values.is_contiguous()) {
    throw std::invalid_argument("uniform: the tensor " + values.shape().to_string() + " is " +
                                std::string(tensor::name(values.dtype())) + ", expected contiguous float32");
  }
  const auto from = static_cast<float>(low);
  const float width = static_cast<float>(high) - from;
  float* const out = values.data<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const float unit = static_cast<float>(generator.next() & kFloatBits) * kFloatUnit;
    // One rounding: torch's kernel for this is compiled to a fused multiply-add. The golden weights tell the
    // difference.
    out[i] = std::fma(unit, width, from);
  }
}

double default_bound(std::int64_t fan_in) {
  // Step by step as torch computes it, because the last bit of the bound is the last bit of the weights.
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + slope * slope));
  return std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace tutti::nn
