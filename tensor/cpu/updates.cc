// Optimizer steps: one pass over the memory of each parameter, on all threads.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/in_parts.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

UpdatedParameter part_of(const UpdatedParameter& p, std::int64_t begin, std::int64_t end) {
  UpdatedParameter part = p;
  part.values += begin;
  part.gradient += begin;
  if (part.first != nullptr) part.first += begin;
  if (part.second != nullptr) part.second += begin;
  part.count = end - begin;
  return part;
}

// update(part) for parts of all parameters.
template <typename Update>
void for_parts(std::span<const UpdatedParameter> parameters, const Update& update) {
  for (const UpdatedParameter& p : parameters) {
    in_parts(p.count, [&](std::int64_t begin, std::int64_t end) { update(part_of(p, begin, end)); });
  }
}

void plain_sgd(const UpdatedParameter& p, const SgdRule& c) {
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = p.gradient[i] + c.weight_decay * p.values[i];
    p.values[i] -= c.learning_rate * gradient;
  }
}

template <bool kNesterov>
void sgd_with_momentum(const UpdatedParameter& p, const SgdRule& c) {
  float* __restrict buffer = p.first;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = p.gradient[i] + c.weight_decay * p.values[i];
    buffer[i] = c.momentum * buffer[i] + p.rate * gradient;
    p.values[i] -= c.learning_rate * (kNesterov ? gradient + c.momentum * buffer[i] : buffer[i]);
  }
}

// 1 / x for x > 0, to the last bit or two. A division costs as much as all the rest of the update; this is a guess from
// the exponent's bits and three Newton steps, each of which squares the relative error (0.12 at first). Unlike the
// processors' approximate reciprocals it gives the same bits on all of them, so that replicas stay equal in a mixed
// cluster.
inline float reciprocal(float x) {
  constexpr std::uint32_t kGuess = 0x7ef311c7u;
  float y = std::bit_cast<float>(kGuess - std::bit_cast<std::uint32_t>(x));
  y = y * (2.0F - x * y);
  y = y * (2.0F - x * y);
  return y * (2.0F - x * y);
}

void adam(const UpdatedParameter& p, const AdamRule& rule) {
  const AdamRule c = rule;
  const float step_size = p.rate;
  const float root_scale = p.scale;
  float* __restrict values = p.values;
  const float* __restrict gradients = p.gradient;
  float* __restrict m = p.first;
  float* __restrict v = p.second;
  // Beyond it the guess of `reciprocal` leaves the range of float: an overflown v then means no update, as in PyTorch.
  // The order of the arguments lets a NaN through.
  constexpr float kLargest = 0x1p120F;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = gradients[i] + c.weight_decay * values[i];
    m[i] = c.beta1 * m[i] + c.one_minus_beta1 * gradient;
    v[i] = c.beta2 * v[i] + c.one_minus_beta2 * gradient * gradient;
    const float denominator = std::min(std::sqrt(v[i]) * root_scale + c.epsilon, kLargest);
    values[i] = c.keep * values[i] - step_size * m[i] * reciprocal(denominator);
  }
}

void adadelta(const UpdatedParameter& p, const AdadeltaRule& rule) {
  const AdadeltaRule c = rule;
  float* __restrict values = p.values;
  const float* __restrict gradients = p.gradient;
  float* __restrict square = p.first;
  float* __restrict delta = p.second;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float gradient = gradients[i] + c.weight_decay * values[i];
    square[i] = c.rho * square[i] + c.one_minus_rho * gradient * gradient;
    const float change = std::sqrt(delta[i] + c.epsilon) / std::sqrt(square[i] + c.epsilon) * gradient;
    delta[i] = c.rho * delta[i] + c.one_minus_rho * change * change;
    values[i] -= c.learning_rate * change;
  }
}

constexpr std::int64_t kBlock = 1 << 15;

// Eight sums side by side, which the compiler keeps in a register: one chain of additions would be eight times slower.
double block_sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return total;
}

}  // namespace

void sgd_update(Device, std::span<const UpdatedParameter> parameters, const SgdRule& rule) {
  for_parts(parameters, [&](const UpdatedParameter& part) {
    if (part.first == nullptr) {
      plain_sgd(part, rule);
    } else if (rule.nesterov) {
      sgd_with_momentum<true>(part, rule);
    } else {
      sgd_with_momentum<false>(part, rule);
    }
  });
}

void adam_update(Device, std::span<const UpdatedParameter> parameters, const AdamRule& rule) {
  for_parts(parameters, [&](const UpdatedParameter& part) { adam(part, rule); });
}

void adadelta_update(Device, std::span<const UpdatedParameter> parameters, const AdadeltaRule& rule) {
  for_parts(parameters, [&](const UpdatedParameter& part) { adadelta(part, rule); });
}

// Block by block on all threads; the blocks' sums are added in their order, so that threads change no bit.
double sum_of_squares(Device, std::span<const UpdatedParameter> parameters) {
  double total = 0;
  std::vector<double> sums;
  for (const UpdatedParameter& p : parameters) {
    const std::int64_t blocks = (p.count + kBlock - 1) / kBlock;
    sums.resize(static_cast<std::size_t>(blocks));
    parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = block * kBlock;
        sums[static_cast<std::size_t>(block)] =
            block_sum_of_squares(p.gradient + first, std::min(kBlock, p.count - first));
      }
    });
    total += std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  return total;
}

void scale_gradients(Device, std::span<const UpdatedParameter> parameters, float factor) {
  for_parts(parameters, [&](const UpdatedParameter& part) {
    for (std::int64_t i = 0; i < part.count; ++i) part.gradient[i] *= factor;
  });
}

}  // namespace tutti::tensor::cpu
