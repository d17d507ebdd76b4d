#include <tutti/trainer/data_parallel/gradient_exchange.h>
#include <tutti/trainer/tensor_comm.h>

namespace tutti::trainer {
namespace {

class AllReduceExchange : public GradientExchange {
 public:
  AllReduceExchange(comm::ProcessGroup& group, std::size_t buckets) : group_(group), works_(buckets) {}

  void begin(std::size_t bucket, tensor::Tensor& gradients) override {
    // The last one runs on the caller's thread: a hand-off would cost more than a small model's whole all_reduce.
    if (bucket + 1 == works_.size()) return group_.all_reduce(as_buffer(gradients));
    works_[bucket] = group_.all_reduce_async(as_buffer(gradients));
  }

  void finish(std::size_t bucket, tensor::Tensor& /*gradients*/) override {
    if (bucket + 1 == works_.size()) return;
    works_[bucket].wait();
    works_[bucket] = {};
  }

  void abandon() noexcept override {
    for (comm::Work& work : works_) {
      try {
        (void)work.wait_for(group_.timeout());
      } catch (...) {  // how it ended is told by whoever gave the step up
      }
      work = {};
    }
  }

  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "all_reduce"; }

 private:
  comm::ProcessGroup& group_;
  std::vector<comm::Work> works_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_all_reduce_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<AllReduceExchange>(group, plan.buckets.size());
}

}  // namespace tutti::trainer
