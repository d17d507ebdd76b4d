// What the update rules share: checked, flat views of parameters and their gradients, by device.
#pragma once

#include <tutti/tensor/autograd/variable.h>
#include <tutti/tensor/ops.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::nn {

/// Throws std::invalid_argument naming `optimizer`, the parameter's index and what it is, unless every parameter is a
/// contiguous float32 tensor.
void check_parameters(std::string_view optimizer, std::span<const tensor::Variable> parameters);

/// Throws std::invalid_argument naming the option unless value >= 0 (a NaN is refused as well).
void check_not_negative(std::string_view optimizer, std::string_view option, double value);

/// The parameter must have a gradient. Throws std::invalid_argument when that gradient is not of the parameter's shape,
/// type and device, or not contiguous.
tensor::UpdatedParameter view_of(std::string_view optimizer, std::size_t index, tensor::Variable& parameter);

/// The parameters of one step, which a device takes all at once.
class Updates {
 public:
  void add(tensor::Device device, const tensor::UpdatedParameter& parameter);
  /// each(kernels, device, parameters) for each device, in the order of their first parameters.
  void for_each(const std::function<void(const tensor::KernelTable&, tensor::Device,
                                         std::span<const tensor::UpdatedParameter>)>& each) const;

 private:
  std::vector<std::pair<tensor::Device, std::vector<tensor::UpdatedParameter>>> by_device_;
};

/// The floats of a state tensor, for UpdatedParameter.
float* floats_of(tensor::Tensor& state);

/// One zeroed tensor of each parameter's shape, on its device.
std::vector<tensor::Tensor> zeros_like(std::span<const tensor::Variable> parameters);

}  // namespace tutti::nn
