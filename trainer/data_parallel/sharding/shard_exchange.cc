#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/data_parallel/rounded_sums.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/shard_plan.h>
#include <tutti/trainer/tensor_comm.h>

#include <optional>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

struct BucketShard {
  std::vector<std::size_t> counts;  // by rank
  Shard mine;
  Tensor sum;  // of this rank's shard
};

class ShardExchange : public GradientExchange {
 public:
  ShardExchange(comm::ProcessGroup& group, const ExchangePlan& plan, bool exact)
      : group_(group), works_(group, plan.buckets.size()) {
    if (exact) rounded_.emplace(plan);
    for (const Bucket& bucket : plan.buckets) {
      BucketShard shard{
          shard_counts(bucket, group.world_size()), shard_of(bucket, group.rank(), group.world_size()), {}};
      shard.sum = Tensor::empty({static_cast<std::int64_t>(shard.mine.count)}, type_of(bucket.dtype));
      shards_.push_back(std::move(shard));
    }
  }

  Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) override {
    return GradientExchange::bucket_memory(group, count, type_of(dtype));
  }

  void begin(std::size_t bucket, Tensor& gradients) override {
    BucketShard& shard = shards_[bucket];
    const comm::Buffer whole = as_buffer(gradients);
    const comm::Buffer mine = as_buffer(shard.sum);
    if (bucket + 1 == shards_.size()) return group_.reduce_scatter_v(whole, mine, shard.counts);
    works_.add(bucket, group_.reduce_scatter_v_async(whole, mine, shard.counts));
  }

  void finish(std::size_t bucket, Tensor& gradients) override {
    works_.wait(bucket);
    const BucketShard& shard = shards_[bucket];
    const auto begin = static_cast<std::int64_t>(shard.mine.begin);
    if (result(bucket).defined()) return rounded_->round(bucket, begin, shard.sum);
    gradients.narrow(0, begin, static_cast<std::int64_t>(shard.mine.count)).copy_from(shard.sum);
  }

  Tensor result(std::size_t bucket) override { return rounded_ ? rounded_->of(bucket) : Tensor(); }

  void abandon() noexcept override { works_.abandon(); }
  bool sums_elementwise() const override { return false; }
  std::string name() const override { return "reduce_scatter"; }

 private:
  tensor::DType type_of(tensor::DType dtype) const { return rounded_ ? RoundedSums::wide(dtype) : dtype; }

  comm::ProcessGroup& group_;
  PendingWorks works_;
  std::optional<RoundedSums> rounded_;  // exact sums only
  std::vector<BucketShard> shards_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ShardExchange>(group, plan, false);
}

std::unique_ptr<GradientExchange> make_exact_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ShardExchange>(group, plan, true);
}

}  // namespace tutti::trainer
