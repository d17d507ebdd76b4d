#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/rounded_sums.h>

#include <algorithm>

namespace tutti::trainer {

using tensor::DType;
using tensor::Tensor;

DType type_of_sums(DType dtype) { return dtype == DType::Float32 ? DType::Float64 : dtype; }

void round_sums(const Tensor& sums, Tensor& rounded) {
  constexpr std::int64_t kGrain = 1 << 16;
  const double* const from = sums.data<double>();
  float* const to = rounded.data<float>();
  tensor::parallel_for(std::min(sums.numel(), rounded.numel()), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i] + 0.0);
  });
}

}  // namespace tutti::trainer
