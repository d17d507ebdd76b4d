// Entries of the kernel table that are being written: each line goes when its kernel comes.
#include <tutti/tensor/cuda/cuda_kernels.h>

#include <stdexcept>
#include <string>

namespace tutti::tensor::cuda {
namespace {

[[noreturn]] void absent(const char* operation) {
  throw std::runtime_error(std::string(operation) + " is not computed on a GPU by this version; use device cpu");
}

}  // namespace

void bias_activation(Tensor&, const Tensor&, bool) { absent("bias_activation"); }

void sum(Tensor&, const Tensor&, double) { absent("sum"); }

void column_sum(Tensor&, const Tensor&, bool) { absent("column_sum"); }

void sum_middle(Tensor&, const Tensor&, double) { absent("sum_middle"); }

void squared_error(Tensor&, const Tensor&, const Tensor&, double) { absent("squared_error"); }

void log_softmax(Tensor&, const Tensor&) { absent("log_softmax"); }

void log_softmax_backward(Tensor&, const Tensor&, const Tensor&, bool) { absent("log_softmax_backward"); }

void softmax(Tensor&, const Tensor&) { absent("softmax"); }

void softmax_backward(Tensor&, const Tensor&, const Tensor&, bool) { absent("softmax_backward"); }

void cross_entropy(Tensor&, Tensor&, const Tensor&, const Tensor&, double, double) { absent("cross_entropy"); }

void cross_entropy_backward(Tensor&, const Tensor&, const Tensor&, const Tensor&, double, double, bool) {
  absent("cross_entropy_backward");
}

void nll_loss(Tensor&, const Tensor&, const Tensor&, double) { absent("nll_loss"); }

void nll_loss_backward(Tensor&, const Tensor&, const Tensor&, double, bool) { absent("nll_loss_backward"); }

void spread_middle(Tensor&, const Tensor&, double, bool) { absent("spread_middle"); }

void scale_rows(Tensor&, const Tensor&, const Tensor&, bool) { absent("scale_rows"); }

void mul_channels(Tensor&, const Tensor&, const Tensor&, bool) { absent("mul_channels"); }

void channel_dots(Tensor&, const Tensor&, const Tensor&, bool) { absent("channel_dots"); }

void curve(Tensor&, const Tensor&, Curve) { absent("curve"); }

void curve_backward(Tensor&, const Tensor&, const Tensor&, Curve, bool) { absent("curve_backward"); }

void dropout_mask(Tensor&, const Tensor&, std::uint64_t, double) { absent("dropout_mask"); }

void apply_mask(Tensor&, const Tensor&, const Tensor&, double, bool) { absent("apply_mask"); }

}  // namespace tutti::tensor::cuda
