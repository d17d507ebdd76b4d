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

void gemm(Tensor&, const Tensor&, bool, const Tensor&, bool, bool) { absent("gemm"); }

void conv2d(Tensor&, const Tensor&, const Tensor&, const Tensor&, const ConvWindow&, bool) { absent("conv2d"); }

void conv2d_input_gradient(Tensor&, const Tensor&, const Tensor&, const ConvWindow&, bool) {
  absent("conv2d_input_gradient");
}

void conv2d_weight_gradient(Tensor&, const Tensor&, const Tensor&, const ConvWindow&, bool) {
  absent("conv2d_weight_gradient");
}

void inverse_root(Tensor&, const Tensor&, double) { absent("inverse_root"); }

void batch_norm_statistics(Tensor&, Tensor&, const Tensor&) { absent("batch_norm_statistics"); }

void batch_norm(Tensor&, const BatchNormPass&, const Tensor&) { absent("batch_norm"); }

void batch_norm_sums(Tensor&, Tensor&, Tensor&, const BatchNormPass&, const Tensor&, const Tensor&) {
  absent("batch_norm_sums");
}

void batch_norm_input(Tensor&, const BatchNormPass&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {
  absent("batch_norm_input");
}

void max_pool(Tensor&, Tensor&, const Tensor&, std::span<const PoolWindow>, std::span<const PoolWindow>) {
  absent("max_pool");
}

void max_pool_backward(Tensor&, const Tensor&, const Tensor&, std::span<const PoolWindow>, std::span<const PoolWindow>,
                       bool) {
  absent("max_pool_backward");
}

void mean_pool(Tensor&, const Tensor&, std::span<const PoolWindow>, std::span<const PoolWindow>) {
  absent("mean_pool");
}

void mean_pool_backward(Tensor&, const Tensor&, std::span<const PoolWindow>, std::span<const PoolWindow>, bool) {
  absent("mean_pool_backward");
}

}  // namespace tutti::tensor::cuda
