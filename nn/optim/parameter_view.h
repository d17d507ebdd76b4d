// What the update rules share: a checked, flat view of one parameter and its gradient.
#pragma once

#include <tutti/tensor/autograd/variable.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tutti::nn {

struct ParameterView {
  float* values;
  const float* gradient;
  std::int64_t count;

  ParameterView part(std::int64_t begin, std::int64_t end) const {
    return {values + begin, gradient + begin, end - begin};
  }
};

/// Throws std::invalid_argument naming `optimizer`, the parameter's index and what it is, unless every parameter is a
/// contiguous float32 tensor on the CPU.
void check_parameters(std::string_view optimizer, std::span<const tensor::Variable> parameters);

/// Throws std::invalid_argument naming the option unless value >= 0 (a NaN is refused as well).
void check_not_negative(std::string_view optimizer, std::string_view option, double value);

/// The parameter must have a gradient. Throws std::invalid_argument when that gradient is not of the parameter's shape,
/// type and device, or not contiguous.
ParameterView view_of(std::string_view optimizer, std::size_t index, tensor::Variable& parameter);

/// One zeroed tensor of each parameter's shape, on its device.
std::vector<tensor::Tensor> zeros_like(std::span<const tensor::Variable> parameters);

}  // namespace tutti::nn
