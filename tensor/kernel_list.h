// What the kernels of all devices share: their list, the choice of a type, and what batch norm's relu let pass. Private
// to tensor/.
#pragma once

#include <tutti/tensor/ops.h>

#include <stdexcept>
#include <string>
#include <type_traits>

// The entries of KernelTable (ops.h has the contracts) that every device computes, in its order. Each device's header
// declares them, as functions of its namespace, and its table names them.
// clang-format off
#define TUTTI_KERNELS(F) \
  F(fill) F(copy) F(add) F(mul) F(scale) F(relu) F(relu_backward) F(broadcast) F(sum) F(column_sum) \
  F(gemm) F(bias_activation) F(linear) F(conv2d) F(conv2d_input_gradient) F(conv2d_weight_gradient) \
  F(log_softmax) F(log_softmax_backward) F(cross_entropy) F(cross_entropy_backward)                 \
  F(squared_error) F(squared_error_backward)                                                        \
  F(sub) F(div) F(sum_middle) F(spread_middle) F(scale_rows) F(mul_channels) F(channel_dots)        \
  F(softmax) F(softmax_backward) F(nll_loss) F(nll_loss_backward) F(curve) F(curve_backward)        \
  F(batch_norm_channels) F(batch_norm_statistics) F(batch_norm)                                     \
  F(batch_norm_sums) F(batch_norm_coefficients) F(batch_norm_input)                                 \
  F(max_pool) F(max_pool_backward) F(mean_pool) F(mean_pool_backward) F(dropout_mask) F(apply_mask) \
  F(sgd_update) F(adam_update) F(adadelta_update) F(sum_of_squares) F(scale_gradients)
// clang-format on
#define TUTTI_DECLARE_KERNEL(name) std::remove_pointer_t<decltype(KernelTable::name)> name;
#define TUTTI_KERNEL_ENTRY(name) .name = name,

namespace tutti::tensor {

/// float's or double's.
template <typename T>
constexpr DType float_type() {
  return sizeof(T) == 4 ? DType::Float32 : DType::Float64;
}

/// Calls body.operator()<T>() for the type's T.
template <typename F>
void with_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::Float32:
      return body.template operator()<float>();
    case DType::Float64:
      return body.template operator()<double>();
    case DType::Int64:
      return body.template operator()<std::int64_t>();
    case DType::UInt8:
      return body.template operator()<std::uint8_t>();
  }
}

/// The same for float and double.
template <typename F>
void with_float_type(DType dtype, F&& body) {
  if (dtype == DType::Float32) return body.template operator()<float>();
  if (dtype == DType::Float64) return body.template operator()<double>();
  throw std::invalid_argument("arithmetic on a " + std::string(name(dtype)) +
                              " tensor: only float32 and float64 compute; convert with to()");
}

/// Where batch norm's backward learns what relu let pass: nothing was stopped, y tells, or it is computed once more.
enum class Mask { None, FromY, Again };

inline Mask mask_of(const BatchNormPass& pass, const Tensor& y) {
  if (!pass.relu) return Mask::None;
  return y.defined() ? Mask::FromY : Mask::Again;
}

/// Calls body.operator()<mask>().
template <typename F>
void with_mask(Mask mask, F&& body) {
  switch (mask) {
    case Mask::None:
      return body.template operator()<Mask::None>();
    case Mask::FromY:
      return body.template operator()<Mask::FromY>();
    case Mask::Again:
      return body.template operator()<Mask::Again>();
  }
}

}  // namespace tutti::tensor
