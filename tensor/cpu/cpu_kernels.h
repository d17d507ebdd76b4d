// The CPU's kernels, as functions. Private to tensor/.
#pragma once

#include <tutti/tensor/kernel_list.h>

namespace tutti::tensor::cpu {

const KernelTable& kernel_table();

TUTTI_KERNELS(TUTTI_DECLARE_KERNEL)
TUTTI_DECLARE_KERNEL(batch_norm_moments)

/// For float64 results of float32 operands (exact_sum.h): out (N) (+)= sums over the rows of a (M, N), and
/// c (M, N) (+)= a (K, M)^T b (K, N).
void exact_column_sum(Tensor& out, const Tensor& a, bool accumulate);
void exact_product(Tensor& c, const Tensor& a, const Tensor& b, bool accumulate);

/// Element-wise passes shorter than this stay on one thread: waking another costs more.
inline constexpr std::int64_t kElementGrain = 1 << 17;

}  // namespace tutti::tensor::cpu
