#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/rounded_sums.h>

#include <algorithm>

namespace tutti::trainer {

using tensor::DType;
using tensor::Tensor;

RoundedSums::RoundedSums(const ExchangePlan& plan) {
  for (const Bucket& bucket : plan.buckets) {
    const bool rounds = bucket.dtype == DType::Float32;
    results_.push_back(rounds ? Tensor::zeros({static_cast<std::int64_t>(bucket.count)}) : Tensor());
  }
}

DType RoundedSums::wide(DType dtype) { return dtype == DType::Float32 ? DType::Float64 : dtype; }

/// Zero has no sign afterwards: whether it had one depends on who had no term to add.
void RoundedSums::round(std::size_t bucket, std::int64_t first, const Tensor& sums) {
  constexpr std::int64_t kGrain = 1 << 16;
  const std::int64_t count = std::min(sums.numel(), results_[bucket].numel() - first);  // riders, padding stay behind
  if (count <= 0) return;
  const double* const from = sums.data<double>();
  float* const to = results_[bucket].data<float>() + first;
  tensor::parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i] + 0.0);
  });
}

}  // namespace tutti::trainer
