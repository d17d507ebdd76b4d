#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/shard_plan.h>
#include <tutti/trainer/tensor_comm.h>

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
  ShardExchange(comm::ProcessGroup& group, const ExchangePlan& plan)
      : group_(group), works_(group, plan.buckets.size()) {
    for (const Bucket& bucket : plan.buckets) {
      BucketShard shard{
          shard_counts(bucket, group.world_size()), shard_of(bucket, group.rank(), group.world_size()), {}};
      shard.sum = Tensor::empty({static_cast<std::int64_t>(shard.mine.count)}, bucket.dtype);
      shards_.push_back(std::move(shard));
    }
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
    gradients.narrow(0, static_cast<std::int64_t>(shard.mine.begin), static_cast<std::int64_t>(shard.mine.count))
        .copy_from(shard.sum);
  }

  void abandon() noexcept override { works_.abandon(); }
  bool sums_elementwise() const override { return false; }
  std::string name() const override { return "reduce_scatter"; }

 private:
  comm::ProcessGroup& group_;
  PendingWorks works_;
  std::vector<BucketShard> shards_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ShardExchange>(group, plan);
}

}  // namespace tutti::trainer
