#include <tutti/nn/init.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace tutti::nn {
namespace {

constexpr std::uint32_t kFloatBits = 0xffffff;  // torch draws the 24 low bits
constexpr float kFloatUnit = 0x1p-24F;

constexpr std::int64_t kBlock = 16;

void check_fillable(const char* function, const tensor::Tensor& values) {
  if (values.dtype() == tensor::DType::Float32 && values.is_contiguous()) return;
  throw std::invalid_argument(std::string(function) + ": the tensor " + values.shape().to_string() + " is " +
                              std::string(tensor::name(values.dtype())) + ", expected contiguous float32");
}

void draw_uniform(float* values, std::int64_t count, tensor::Mt19937& generator) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = generator.uniform(0, 1);
}

// 16 numbers from [0, 1) become normal ones; the first 8 give the radii, the others the angles. The roundings are those
// of torch's vector kernel: the angle in float, mean and deviation by a fused multiply-add.
void make_normal(float* block, float mean, float deviation) {
  constexpr auto kTurn = static_cast<float>(2 * std::numbers::pi);
  for (int i = 0; i < kBlock / 2; ++i) {
    const float radius = std::sqrt(-2 * std::log(1 - block[i]));
    const float angle = kTurn * block[i + kBlock / 2];
    block[i] = std::fma(radius * std::cos(angle), deviation, mean);
    block[i + kBlock / 2] = std::fma(radius * std::sin(angle), deviation, mean);
  }
}

double kaiming_deviation(const tensor::Tensor& weight, Fan fan, double gain) {
  return gain / std::sqrt(static_cast<double>(fan_of(weight.shape(), fan)));
}

double xavier_deviation(const tensor::Tensor& weight, double gain) {
  const std::int64_t fans = fan_of(weight.shape(), Fan::In) + fan_of(weight.shape(), Fan::Out);
  return gain * std::sqrt(2.0 / static_cast<double>(fans));
}

void uniform_of_deviation(tensor::Tensor& values, double deviation, tensor::Mt19937& generator) {
  const double bound = std::sqrt(3.0) * deviation;
  uniform(values, -bound, bound, generator);
}

}  // namespace

void uniform(tensor::Tensor& values, double low, double high, tensor::Mt19937& generator) {
  check_fillable("uniform", values);
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

void normal(tensor::Tensor& values, double mean, double deviation, tensor::Mt19937& generator) {
  check_fillable("normal", values);
  float* const out = values.data<float>();
  const std::int64_t count = values.numel();
  const auto m = static_cast<float>(mean);
  const auto d = static_cast<float>(deviation);
  if (count < kBlock) {
    std::array<float, kBlock> block;
    draw_uniform(block.data(), kBlock, generator);
    make_normal(block.data(), m, d);
    std::copy_n(block.data(), count, out);
    return;
  }
  draw_uniform(out, count, generator);
  for (std::int64_t i = 0; i + kBlock <= count; i += kBlock) make_normal(out + i, m, d);
  if (count % kBlock == 0) return;
  float* const last = out + count - kBlock;
  draw_uniform(last, kBlock, generator);
  make_normal(last, m, d);
}

std::int64_t fan_of(const tensor::Shape& weight, Fan fan) {
  if (weight.rank() < 2 || weight[0] < 1 || weight[1] < 1) {
    throw std::invalid_argument("fan_of: the weight has shape " + weight.to_string() +
                                ", expected (outputs, inputs, ...)");
  }
  return weight.numel() / (fan == Fan::In ? weight[0] : weight[1]);
}

void kaiming_normal(tensor::Tensor& weight, Fan fan, tensor::Mt19937& generator, double gain) {
  normal(weight, 0, kaiming_deviation(weight, fan, gain), generator);
}

void kaiming_uniform(tensor::Tensor& weight, Fan fan, tensor::Mt19937& generator, double gain) {
  uniform_of_deviation(weight, kaiming_deviation(weight, fan, gain), generator);
}

void xavier_normal(tensor::Tensor& weight, tensor::Mt19937& generator, double gain) {
  normal(weight, 0, xavier_deviation(weight, gain), generator);
}

void xavier_uniform(tensor::Tensor& weight, tensor::Mt19937& generator, double gain) {
  uniform_of_deviation(weight, xavier_deviation(weight, gain), generator);
}

double default_bound(std::int64_t fan_in) {
  // Step by step as torch computes it, because the last bit of the bound is the last bit of the weights.
  const double slope = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + slope * slope));
  return std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace tutti::nn
