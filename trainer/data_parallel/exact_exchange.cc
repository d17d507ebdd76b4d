#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/exact_exchange.h>
#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/tensor_comm.h>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Tensor;

/// Zero has no sign afterwards: whether it had one depends on who had no term to add.
void round_to_float32(Tensor& to, const Tensor& from) {
  constexpr std::int64_t kGrain = 1 << 16;
  const double* const sums = from.data<double>();
  float* const rounded = to.data<float>();
  tensor::parallel_for(to.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) rounded[i] = static_cast<float>(sums[i] + 0.0);
  });
}

class ExactExchange : public GradientExchange {
 public:
  ExactExchange(comm::ProcessGroup& group, const ExchangePlan& plan) : works_(group, plan.buckets.size()) {
    for (const Bucket& bucket : plan.buckets) {
      const bool rounds = bucket.dtype == DType::Float32;
      results_.push_back(rounds ? Tensor::zeros({static_cast<std::int64_t>(bucket.count)}) : Tensor());
    }
  }

  Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, DType dtype) override {
    return GradientExchange::bucket_memory(group, count, dtype == DType::Float32 ? DType::Float64 : dtype);
  }

  void begin(std::size_t bucket, Tensor& gradients) override { works_.all_reduce(bucket, as_buffer(gradients)); }
  void finish(std::size_t bucket, Tensor& gradients) override {
    works_.wait(bucket);
    if (results_[bucket].defined()) round_to_float32(results_[bucket], gradients);
  }
  void abandon() noexcept override { works_.abandon(); }

  Tensor result(std::size_t bucket) override { return results_[bucket]; }
  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "exact"; }

 private:
  PendingWorks works_;
  std::vector<Tensor> results_;  // by bucket; undefined where the bucket is the result
};

}  // namespace

std::unique_ptr<GradientExchange> make_exact_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ExactExchange>(group, plan);
}

}  // namespace tutti::trainer
