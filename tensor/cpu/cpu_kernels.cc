#include <tutti/tensor/cpu/cpu_kernels.h>

namespace tutti::tensor::cpu {

const KernelTable& kernel_table() {
  static constexpr KernelTable kTable = {
      .fill = fill,
      .copy = copy,
      .add = add,
      .mul = mul,
      .scale = scale,
      .relu = relu,
      .relu_backward = relu_backward,
      .broadcast = broadcast,
      .sum = sum,
      .column_sum = column_sum,
      .gemm = gemm,
      .bias_activation = bias_activation,
      .conv2d = conv2d,
      .conv2d_input_gradient = conv2d_input_gradient,
      .conv2d_weight_gradient = conv2d_weight_gradient,
      .log_softmax = log_softmax,
      .log_softmax_backward = log_softmax_backward,
      .cross_entropy = cross_entropy,
      .cross_entropy_backward = cross_entropy_backward,
      .squared_error = squared_error,
      .squared_error_backward = squared_error_backward,
  };
  return kTable;
}

}  // namespace tutti::tensor::cpu
