// RoundedSums: the float32 gradients that exact sums in float64 buckets become; what exchanges of exact sums share
// (exact_exchange.h). Thread-safety: none, as its exchange.
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <vector>

namespace tutti::trainer {

class RoundedSums {
 public:
  explicit RoundedSums(const ExchangePlan& plan);

  /// Of the memory of a bucket of `dtype`.
  static tensor::DType wide(tensor::DType dtype);

  /// Where the bucket's gradients are; undefined for a bucket that is not float32, which is its own result.
  const tensor::Tensor& of(std::size_t bucket) const { return results_[bucket]; }
  /// Elements first, first + 1, ... of the bucket's gradients become what is in `sums`.
  void round(std::size_t bucket, std::int64_t first, const tensor::Tensor& sums);

 private:
  std::vector<tensor::Tensor> results_;
};

}  // namespace tutti::trainer
