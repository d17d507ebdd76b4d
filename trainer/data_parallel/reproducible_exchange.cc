#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/data_parallel/reproducible_exchange.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Tensor;

template <typename T>
void add_flat(T* sum, const T* more, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += more[i];
}

/// sum += more, both flat and contiguous.
void add(Tensor& sum, const Tensor& more) {
  if (sum.dtype() == DType::Float64) return add_flat(sum.data<double>(), more.data<double>(), sum.numel());
  add_flat(sum.data<float>(), more.data<float>(), sum.numel());
}

struct BucketState {
  std::int64_t slice = 0;  // elements that each rank is responsible for; the last one's may be fewer
  Tensor outgoing;         // (ranks, passes, slice): by the rank that adds it up
  Tensor incoming;         // (ranks, passes, slice): by the rank that made it
  Tensor sum;              // (slice); in a world of one (everything)
  Tensor whole;            // (ranks * slice)
  int passes = 0;          // of this step, so far
};

class ReproducibleExchange : public GradientExchange {
 public:
  ReproducibleExchange(comm::ProcessGroup& group, std::size_t buckets)
      : group_(group),
        ranks_(group.world_size()),
        passes_(kReproducibleShards / group.world_size()),
        buckets_(buckets),
        works_(group, buckets) {
    if (kReproducibleShards % ranks_ != 0) {
      throw std::invalid_argument("reproducible training needs a number of ranks that divides " +
                                  std::to_string(kReproducibleShards) + " (1, 2, 3, 4, 6 or 12), not " +
                                  std::to_string(ranks_));
    }
  }

  void begin(std::size_t bucket, Tensor& gradients) override {
    BucketState& state = buckets_[bucket];
    if (!state.sum.defined()) make_room(state, gradients);
    const int pass = state.passes++;
    if (ranks_ == 1) return pass == 0 ? state.sum.copy_from(gradients) : add(state.sum, gradients);
    deal_out(state, gradients, pass);
    if (state.passes == passes_) {
      works_.add(bucket, group_.all_to_all_async(as_buffer(state.outgoing), as_buffer(state.incoming)));
    }
  }

  void finish(std::size_t bucket, Tensor& gradients) override {
    BucketState& state = buckets_[bucket];
    state.passes = 0;
    if (ranks_ == 1) return gradients.copy_from(state.sum);
    works_.wait(bucket);
    add_in_order(state);
    group_.all_gather(as_buffer(state.sum), as_buffer(state.whole));
    gradients.copy_from(state.whole.narrow(0, 0, gradients.numel()));
  }

  void abandon() noexcept override {
    works_.abandon();
    for (BucketState& state : buckets_) state.passes = 0;
  }

  bool sums_elementwise() const override { return true; }
  std::string name() const override { return "reproducible"; }

 private:
  void make_room(BucketState& state, const Tensor& gradients) const {
    const std::int64_t count = gradients.numel();
    state.slice = (count + ranks_ - 1) / ranks_;
    state.sum = Tensor::zeros({state.slice}, gradients.dtype());
    if (ranks_ == 1) return;
    state.outgoing = Tensor::zeros({ranks_ * passes_ * state.slice}, gradients.dtype());
    state.incoming = Tensor::zeros({ranks_ * passes_ * state.slice}, gradients.dtype());
    state.whole = Tensor::zeros({ranks_ * state.slice}, gradients.dtype());
  }

  void deal_out(BucketState& state, const Tensor& gradients, int pass) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::int64_t from = rank * state.slice;
      const std::int64_t length = std::min(state.slice, gradients.numel() - from);
      if (length <= 0) break;
      state.outgoing.narrow(0, (rank * passes_ + pass) * state.slice, length)
          .copy_from(gradients.narrow(0, from, length));
    }
  }

  void add_in_order(BucketState& state) const {
    for (int shard = 0; shard < kReproducibleShards; ++shard) {
      const std::int64_t place = shard % ranks_ * passes_ + shard / ranks_;
      const Tensor part = state.incoming.narrow(0, place * state.slice, state.slice);
      shard == 0 ? state.sum.copy_from(part) : add(state.sum, part);
    }
  }

  comm::ProcessGroup& group_;
  int ranks_;
  int passes_;
  std::vector<BucketState> buckets_;
  PendingWorks works_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_reproducible_exchange(comm::ProcessGroup& group, const ExchangePlan& plan) {
  return std::make_unique<ReproducibleExchange>(group, plan.buckets.size());
}

}  // namespace tutti::trainer
