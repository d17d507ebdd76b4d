#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>
#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>

namespace tutti::trainer {

using tensor::Tensor;

namespace {

/// all_reduce, of exact sums or of gradients as they are.
class SumExchange : public GradientExchange {
 public:
  SumExchange(comm::ProcessGroup& group, const ExchangePlan& plan, bool exact)
      : works_(group, plan.buckets.size()),
        alone_(group.world_size() == 1),
        exact_(exact),
        plan_(plan.buckets),
        rounded_(plan.buckets.size()) {}

  Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) override {
    const tensor::DType wide = exact_ ? type_of_sums(plan_[made_]) : dtype;
    rounded_[made_++] = wide == dtype ? Tensor() : GradientExchange::bucket_memory(group, count, dtype);
    return GradientExchange::bucket_memory(group, count, wide);
  }

  void begin(std::size_t bucket, Tensor& gradients) override {
    if (alone_) return;
    comm::Collective sum{.op = comm::OpKind::AllReduce, .output = as_buffer(gradients)};
    if (rounded_[bucket].defined()) sum.rounded = as_buffer(rounded_[bucket]);
    works_.begin(bucket, sum);
  }
  void finish(std::size_t bucket, Tensor& gradients) override {
    works_.wait(bucket);
    if (alone_ && rounded_[bucket].defined()) round_sums(gradients, rounded_[bucket]);
  }
  void abandon() noexcept override { works_.abandon(); }

  Tensor result(std::size_t bucket) override { return rounded_[bucket]; }
  bool sums_elementwise() const override { return true; }
  std::string name() const override { return exact_ ? "exact" : "all_reduce"; }

 private:
  PendingWorks works_;
  bool alone_;
  bool exact_;
  std::vector<Bucket> plan_;
  std::size_t made_ = 0;         // buckets that have memory
  std::vector<Tensor> rounded_;  // by bucket; undefined: the bucket is its own result
};

/// The CPU's exchange on copies of a GPU's buckets.
class CopiedExchange : public GradientExchange {
 public:
  CopiedExchange(std::unique_ptr<GradientExchange> inner, tensor::Device device)
      : inner_(std::move(inner)), device_(device) {}

  Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) override {
    copies_.push_back(inner_->bucket_memory(group, count, dtype));
    return Tensor::empty(copies_.back().shape(), dtype, device_);
  }
  void begin(std::size_t bucket, Tensor& gradients) override {
    copies_[bucket].copy_from(gradients);
    inner_->begin(bucket, copies_[bucket]);
  }
  void finish(std::size_t bucket, Tensor& gradients) override {
    inner_->finish(bucket, copies_[bucket]);
    gradients.copy_from(copies_[bucket]);
  }
  void abandon() noexcept override { inner_->abandon(); }

  Tensor result(std::size_t bucket) override { return inner_->result(bucket); }
  bool sums_elementwise() const override { return false; }  // DataParallel's own numbers are the host's
  std::string name() const override { return inner_->name(); }
  std::vector<std::pair<std::string, Tensor>> state() override { return inner_->state(); }

 private:
  std::unique_ptr<GradientExchange> inner_;
  tensor::Device device_;
  std::vector<Tensor> copies_;  // by bucket
};

}  // namespace

std::unique_ptr<GradientExchange> make_copied_exchange(std::unique_ptr<GradientExchange> inner, tensor::Device device) {
  return std::make_unique<CopiedExchange>(std::move(inner), device);
}

std::unique_ptr<GradientExchange> make_exact_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<SumExchange>(group, plan, true);
}

std::unique_ptr<GradientExchange> make_all_reduce_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<SumExchange>(group, plan, false);
}

Tensor GradientExchange::bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) {
  const auto memory = group.allocate(count * tensor::size_of(dtype));
  return Tensor::over(memory.data(), memory.memory, {static_cast<std::int64_t>(count)}, dtype);
}

tensor::DType type_of_sums(const Bucket& bucket) {
  return bucket.dtype == tensor::DType::Float32 && !bucket.is_whole ? tensor::DType::Float64 : bucket.dtype;
}

void round_sums(const Tensor& sums, Tensor& rounded) {
  constexpr std::int64_t kGrain = 1 << 16;
  const double* const from = sums.data<double>();
  float* const to = rounded.data<float>();
  tensor::parallel_for(std::min(sums.numel(), rounded.numel()), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i] + 0.0);
  });
}

}  // namespace tutti::trainer
