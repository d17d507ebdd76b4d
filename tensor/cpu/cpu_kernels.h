// The CPU's entries of the kernel table; contracts in ops.h. Private to tensor/.
#pragma once

#include <tutti/tensor/ops.h>

#include <stdexcept>
#include <string>

namespace tutti::tensor::cpu {

const KernelTable& kernel_table();

// copy.cc
void fill(Tensor& out, double value);
void copy(Tensor& out, const Tensor& in);

// elementwise.cc
void add(Tensor& out, const Tensor& a, const Tensor& b);
void mul(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate);
void scale(Tensor& out, const Tensor& a, double factor, bool accumulate);
void sub(Tensor& out, const Tensor& a, const Tensor& b);
void div(Tensor& out, const Tensor& a, const Tensor& b);
void relu(Tensor& out, const Tensor& a);
void relu_backward(Tensor& out, const Tensor& grad, const Tensor& y, bool accumulate);
void broadcast(Tensor& out, const Tensor& scalar, double factor, bool accumulate);
void bias_activation(Tensor& y, const Tensor& bias, bool relu);
void squared_error_backward(Tensor& da, const Tensor& a, const Tensor& b, const Tensor& grad, double factor,
                            bool accumulate);

// reduce.cc
void sum(Tensor& out, const Tensor& a, double factor);
void column_sum(Tensor& out, const Tensor& a, bool accumulate);
/// For float64 results of float32 operands (exact_sum.h): out (N) (+)= sums over the rows of a (M, N), and
/// c (M, N) (+)= a (K, M)^T b (K, N).
void exact_column_sum(Tensor& out, const Tensor& a, bool accumulate);
void exact_product(Tensor& c, const Tensor& a, const Tensor& b, bool accumulate);
void sum_middle(Tensor& out, const Tensor& a, double factor);
void squared_error(Tensor& loss, const Tensor& a, const Tensor& b, double factor);

// gemm.cc
void gemm(Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, bool accumulate);
void linear(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, bool relu);

// conv.cc, conv_weight_gradient.cc
void conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& window, bool relu);
void conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvWindow& window, bool accumulate);
void conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window, bool accumulate);

// softmax.cc
void log_softmax(Tensor& y, const Tensor& x);
void log_softmax_backward(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate);
void softmax(Tensor& y, const Tensor& x);
void softmax_backward(Tensor& dx, const Tensor& grad, const Tensor& y, bool accumulate);
void cross_entropy(Tensor& loss, Tensor& probabilities, const Tensor& logits, const Tensor& targets, double factor,
                   double smoothing);
void cross_entropy_backward(Tensor& dlogits, const Tensor& probabilities, const Tensor& targets, const Tensor& grad,
                            double factor, double smoothing, bool accumulate);
void nll_loss(Tensor& loss, const Tensor& log_probabilities, const Tensor& targets, double factor);
void nll_loss_backward(Tensor& dx, const Tensor& targets, const Tensor& grad, double factor, bool accumulate);

// broadcast.cc
void spread_middle(Tensor& out, const Tensor& a, double factor, bool accumulate);
void scale_rows(Tensor& out, const Tensor& a, const Tensor& factors, bool accumulate);
void mul_channels(Tensor& out, const Tensor& a, const Tensor& s, bool accumulate);
void channel_dots(Tensor& out, const Tensor& a, const Tensor& b, bool accumulate);

// activation.cc
void curve(Tensor& y, const Tensor& x, Curve curve);
void curve_backward(Tensor& dx, const Tensor& grad, const Tensor& saved, Curve curve, bool accumulate);

// batch_norm.cc, batch_norm_statistics.cc, batch_norm_sums.cc
void batch_norm_channels(BatchNormPass& pass, const Tensor& variance, const Tensor& weight, double epsilon,
                         RunningStatistics& running);
void batch_norm_coefficients(Tensor& offset, Tensor& slope, const BatchNormPass& pass, const Tensor& sum_dz,
                             const Tensor& sum_dzx, double share, bool exact);
void batch_norm_statistics(Tensor& mean, Tensor& variance, const Tensor& x);
void batch_norm_moments(Tensor& sums, const Tensor& x, const Tensor& centre, std::int64_t image_rows);
void batch_norm(Tensor& y, const BatchNormPass& pass, const Tensor& residual);
void batch_norm_sums(Tensor& sum_dz, Tensor& sum_dzx, Tensor& dz, const BatchNormPass& pass, const Tensor& grad,
                     const Tensor& y);
void batch_norm_input(Tensor& dx, const BatchNormPass& pass, const Tensor& grad, const Tensor& y, const Tensor& slope,
                      const Tensor& offset, bool accumulate);

// pooling.cc
void max_pool(Tensor& y, Tensor& choice, const Tensor& x, std::span<const PoolWindow> rows,
              std::span<const PoolWindow> columns);
void max_pool_backward(Tensor& dx, const Tensor& grad, const Tensor& choice, std::span<const PoolWindow> rows,
                       std::span<const PoolWindow> columns, bool accumulate);
void mean_pool(Tensor& y, const Tensor& x, std::span<const PoolWindow> rows, std::span<const PoolWindow> columns);
void mean_pool_backward(Tensor& dx, const Tensor& grad, std::span<const PoolWindow> rows,
                        std::span<const PoolWindow> columns, bool accumulate);

// dropout.cc
void dropout_mask(Tensor& mask, const Tensor& keys, std::uint64_t layer, double p);
void apply_mask(Tensor& out, const Tensor& a, const Tensor& mask, double factor, bool accumulate);

// updates.cc
void sgd_update(Device device, std::span<const UpdatedParameter> parameters, const SgdRule& rule);
void adam_update(Device device, std::span<const UpdatedParameter> parameters, const AdamRule& rule);
void adadelta_update(Device device, std::span<const UpdatedParameter> parameters, const AdadeltaRule& rule);
double sum_of_squares(Device device, std::span<const UpdatedParameter> parameters);
void scale_gradients(Device device, std::span<const UpdatedParameter> parameters, float factor);

/// Element-wise passes shorter than this stay on one thread: waking another costs more.
inline constexpr std::int64_t kElementGrain = 1 << 17;

/// float's or double's.
template <typename T>
constexpr DType float_type() {
  return sizeof(T) == 4 ? DType::Float32 : DType::Float64;
}

/// Calls body.operator()<float or double>().
template <typename F>
void with_float_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::Float32:
      return body.template operator()<float>();
    case DType::Float64:
      return body.template operator()<double>();
    case DType::Int64:
    case DType::UInt8:
      break;
  }
  throw std::invalid_argument("arithmetic on a " + std::string(name(dtype)) +
                              " tensor: only float32 and float64 compute; convert with to()");
}

}  // namespace tutti::tensor::cpu
