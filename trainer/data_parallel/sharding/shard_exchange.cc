#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <vector>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

class ShardExchange : public GradientExchange {
 public:
  ShardExchange(comm::ProcessGroup& group, const ExchangePlan& plan, bool exact) : works_(group, plan.buckets.size()) {
    for (const Bucket& bucket : plan.buckets) {
      types_.push_back(exact ? type_of_sums(bucket) : bucket.dtype);
      rounded_.push_back(types_.back() != bucket.dtype ? Tensor::zeros({static_cast<std::int64_t>(bucket.count)})
                                                       : Tensor());
      shards_.push_back(shard_of(bucket, group.rank(), group.world_size()));
    }
  }

  /// With room for shards of equal size.
  Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) override {
    const std::size_t all = shard_size({.dtype = dtype, .count = count, .slots = {}}, group.world_size()) *
                            static_cast<std::size_t>(group.world_size());
    return GradientExchange::bucket_memory(group, all, types_[made_++]);
  }

  void begin(std::size_t bucket, Tensor& gradients) override {
    Tensor mine = part_of(gradients, shards_[bucket]);
    works_.begin(bucket, {.op = comm::OpKind::ReduceScatter, .input = as_buffer(gradients), .output = as_buffer(mine)});
  }

  void finish(std::size_t bucket, Tensor& gradients) override {
    works_.wait(bucket);
    if (!rounded_[bucket].defined()) return;
    const Shard& shard = shards_[bucket];
    const auto begin = static_cast<std::int64_t>(shard.begin);
    const std::int64_t count = rounded_[bucket].numel() - begin;  // behind which padding stays
    if (count <= 0) return;
    Tensor mine = rounded_[bucket].narrow(0, begin, std::min(count, static_cast<std::int64_t>(shard.size)));
    round_sums(part_of(gradients, shard), mine);
  }

  Tensor result(std::size_t bucket) override { return rounded_[bucket]; }

  void abandon() noexcept override { works_.abandon(); }
  bool sums_elementwise() const override { return false; }
  std::string name() const override { return "reduce_scatter"; }

 private:
  static Tensor part_of(const Tensor& whole, const Shard& shard) {
    return whole.narrow(0, static_cast<std::int64_t>(shard.begin), static_cast<std::int64_t>(shard.size));
  }

  PendingWorks works_;
  std::vector<tensor::DType> types_;  // of the buckets' memory
  std::size_t made_ = 0;              // buckets that have memory
  std::vector<Tensor> rounded_;       // by bucket; undefined: it is not rounded
  std::vector<Shard> shards_;         // this rank's, by bucket
};

}  // namespace

std::unique_ptr<GradientExchange> make_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ShardExchange>(group, plan, false);
}

std::unique_ptr<GradientExchange> make_exact_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ShardExchange>(group, plan, true);
}

std::size_t shard_size(const Bucket& bucket, int ranks) {
  const std::size_t line = 64 / tensor::size_of(bucket.dtype);
  const std::size_t even = (bucket.count + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  return (even + line - 1) / line * line;
}

Shard shard_of(const Bucket& bucket, int rank, int ranks) {
  Shard shard;
  shard.size = shard_size(bucket, ranks);
  shard.begin = static_cast<std::size_t>(rank) * shard.size;
  for (const BucketSlot& slot : bucket.slots) {
    const std::size_t begin = std::max(slot.offset, shard.begin);
    const std::size_t end = std::min(slot.offset + slot.count, shard.begin + shard.size);
    if (begin >= end) continue;
    shard.pieces.push_back(
        {.parameter = slot.parameter, .begin = begin - slot.offset, .count = end - begin, .at = begin - shard.begin});
  }
  return shard;
}

}  // namespace tutti::trainer
