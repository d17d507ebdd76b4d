#include <tutti/trainer/data_parallel/exact_exchange.h>
#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/data_parallel/rounded_sums.h>
#include <tutti/trainer/tensor_comm.h>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

class ExactExchange : public GradientExchange {
 public:
  ExactExchange(comm::ProcessGroup& group, const ExchangePlan& plan) : works_(group, plan.buckets.size()), sums_(plan) {}

  Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) override {
    return GradientExchange::bucket_memory(group, count, RoundedSums::wide(dtype));
  }

  void begin(std::size_t bucket, Tensor& gradients) override { works_.all_reduce(bucket, as_buffer(gradients)); }
  void finish(std::size_t bucket, Tensor& gradients) override {
    works_.wait(bucket);
    if (sums_.of(bucket).defined()) sums_.round(bucket, 0, gradients);
  }
  void abandon() noexcept override { works_.abandon(); }

  Tensor result(std::size_t bucket) override { return sums_.of(bucket); }
  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "exact"; }

 private:
  PendingWorks works_;
  RoundedSums sums_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_exact_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ExactExchange>(group, plan);
}

}  // namespace tutti::trainer
