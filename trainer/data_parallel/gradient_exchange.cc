#include <tutti/trainer/data_parallel/gradient_exchange.h>
#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/tensor_comm.h>

#include <cstdint>

namespace tutti::trainer {

tensor::Tensor GradientExchange::bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) {
  const auto memory = group.allocate(count * tensor::size_of(dtype));
  return tensor::Tensor::over(memory.data(), memory.memory, {static_cast<std::int64_t>(count)}, dtype);
}

namespace {

class AllReduceExchange : public GradientExchange {
 public:
  AllReduceExchange(comm::ProcessGroup& group, std::size_t buckets) : works_(group, buckets) {}

  void begin(std::size_t bucket, tensor::Tensor& gradients) override {
    works_.all_reduce(bucket, as_buffer(gradients));
  }
  void finish(std::size_t bucket, tensor::Tensor& /*gradients*/) override { works_.wait(bucket); }
  void abandon() noexcept override { works_.abandon(); }

  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "all_reduce"; }

 private:
  PendingWorks works_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_all_reduce_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<AllReduceExchange>(group, plan.buckets.size());
}

}  // namespace tutti::trainer
