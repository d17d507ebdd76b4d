// Matrix products by Eigen.
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/thread_pool.h>

#include <Eigen/Core>
#include <algorithm>

namespace tutti::tensor::cpu {
namespace {

template <typename T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
void product(Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, bool accumulate) {
  Eigen::Map<RowMajor<T>> out(c.data<T>(), c.shape()[0], c.shape()[1]);
  Eigen::Map<const RowMajor<T>> left(a.data<T>(), a.shape()[0], a.shape()[1]);
  Eigen::Map<const RowMajor<T>> right(b.data<T>(), b.shape()[0], b.shape()[1]);
  if (!accumulate) out.setZero();
  if (transpose_a && transpose_b) {
    out.noalias() += left.transpose() * right.transpose();
  } else if (transpose_a) {
    out.noalias() += left.transpose() * right;
  } else if (transpose_b) {
    out.noalias() += left * right.transpose();
  } else {
    out.noalias() += left * right;
  }
}

}  // namespace

void gemm(Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, bool accumulate) {
  if (c.numel() == 0) return;
  with_float_type(c.dtype(), [&]<typename T>() { product<T>(c, a, transpose_a, b, transpose_b, accumulate); });
}

}  // namespace tutti::tensor::cpu
