// Weights and inputs by the formula of golden/make_model_goldens.py, so that golden files need not hold them.
#pragma once

#include <tutti/nn/module.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::nn::test {

inline std::vector<Variable> parameters_of(const Module& model) {
  std::vector<Variable> parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.push_back(parameter);
  return parameters;
}

/// A 32-bit hash of (key, index); the mixing function is Chris Wellons' lowbias32.
inline std::uint32_t keyed_bits(std::uint32_t key, std::uint32_t index) {
  std::uint32_t x = index * 0x9E3779B1u + key * 0x85EBCA77u + 1;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

/// In [-1, 1).
inline double keyed(std::uint32_t key, std::int64_t index) {
  return static_cast<double>(keyed_bits(key, static_cast<std::uint32_t>(index)) >> 8) * 0x1p-23 - 1;
}

inline Tensor keyed_tensor(const tensor::Shape& shape, std::uint32_t key) {
  Tensor values = Tensor::empty(shape);
  for (std::int64_t i = 0; i < values.numel(); ++i) values.data<float>()[i] = static_cast<float>(keyed(key, i));
  return values;
}

/// The weights that the script's `fill` gives.
inline void fill_keyed(Module& model) {
  std::uint32_t key = 0;
  for (auto& [name, parameter] : model.named_parameters()) {
    Tensor& values = parameter.data();
    const bool residual = name.find("bn") != std::string::npos || name.find("downsample.1") != std::string::npos;
    const bool weight = name.ends_with("weight");
    const double fan_in = static_cast<double>(values.numel()) / static_cast<double>(values.shape()[0]);
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const double u = keyed(key, i);
      double value = 0.1 * u;
      if (values.rank() > 1) {
        value = u * std::sqrt(6.0 / fan_in);
      } else if (weight) {
        value = residual ? 0.25 + 0.05 * u : 0.75 + 0.25 * u;
      } else if (residual) {
        value = (0.6 + 0.1 * u) * (name.ends_with("bn1.bias") && i % 2 == 1 ? -1 : 1);
      }
      values.data<float>()[i] = static_cast<float>(value);
    }
    ++key;
  }
}

/// Euclidean norm and the scalar products with two keyed vectors of signs.
inline std::vector<double> summary(const Tensor& values) {
  double squares = 0;
  double products[2] = {0, 0};
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const auto value = static_cast<double>(values.data<float>()[i]);
    squares += value * value;
    for (std::uint32_t s = 0; s < 2; ++s) {
      const bool minus = (keyed_bits(200000 + s, static_cast<std::uint32_t>(i)) & 1) != 0;
      products[s] += minus ? -value : value;
    }
  }
  return {std::sqrt(squares), products[0], products[1]};
}

}  // namespace tutti::nn::test
