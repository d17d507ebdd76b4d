#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/cuda_kernels.h>

namespace tutti::tensor::cuda {

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
      .linear = linear,
      .conv2d = conv2d,
      .conv2d_input_gradient = conv2d_input_gradient,
      .conv2d_weight_gradient = conv2d_weight_gradient,
      .log_softmax = log_softmax,
      .log_softmax_backward = log_softmax_backward,
      .cross_entropy = cross_entropy,
      .cross_entropy_backward = cross_entropy_backward,
      .squared_error = squared_error,
      .squared_error_backward = squared_error_backward,
      .sub = sub,
      .div = div,
      .sum_middle = sum_middle,
      .spread_middle = spread_middle,
      .scale_rows = scale_rows,
      .mul_channels = mul_channels,
      .channel_dots = channel_dots,
      .softmax = softmax,
      .softmax_backward = softmax_backward,
      .nll_loss = nll_loss,
      .nll_loss_backward = nll_loss_backward,
      .curve = curve,
      .curve_backward = curve_backward,
      .batch_norm_channels = batch_norm_channels,
      .batch_norm_statistics = batch_norm_statistics,
      .batch_norm = batch_norm,
      .batch_norm_sums = batch_norm_sums,
      .batch_norm_coefficients = batch_norm_coefficients,
      .batch_norm_input = batch_norm_input,
      .max_pool = max_pool,
      .max_pool_backward = max_pool_backward,
      .mean_pool = mean_pool,
      .mean_pool_backward = mean_pool_backward,
      .dropout_mask = dropout_mask,
      .apply_mask = apply_mask,
      .sgd_update = sgd_update,
      .adam_update = adam_update,
      .adadelta_update = adadelta_update,
      .sum_of_squares = sum_of_squares,
      .scale_gradients = scale_gradients,
  };
  return kTable;
}

}  // namespace tutti::tensor::cuda
