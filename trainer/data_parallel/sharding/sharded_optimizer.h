// ShardedOptimizer: each rank keeps the optimizer's state of its share of the parameters, and updates that share only.
//
// The gradients come from a shard exchange (shard_exchange.h) over the same buckets. step() runs an ordinary optimizer
// over this rank's pieces, bucket by bucket, and gathers the updated parameters from all ranks meanwhile. Update rules
// work element by element, so the result is that of the ordinary optimizer, bit for bit where the sums of gradients
// are; only clipping adds the squares in another order. With N ranks a rank needs 1/N of the state's memory. Source:
// Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// https://arxiv.org/abs/1910.02054, stage 1.
//
// From its construction on the parameters live in other memory, on a CPU in such as the ranks of a host can reach in
// place: their Variables stay, their Tensors are others. Ownership: the group must outlive it. Thread-safety: none; the
// training thread runs it.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>
#include <tutti/trainer/data_parallel/pending_works.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::trainer {

/// Makes the optimizer for some parameters (possibly none); the same rule each time, without clipping.
using OptimizerFactory = std::function<std::unique_ptr<nn::Optimizer>(std::vector<tensor::Variable>)>;

class ShardedOptimizer : public nn::Optimizer {
 public:
  /// `parameters` float32, on the CPU or all on one GPU, in registration order, and `buckets` as DataParallel plans
  /// them for the same model and limits. `clip_norm`: the longest gradient, over all shards.
  ShardedOptimizer(std::vector<tensor::Variable> parameters, const std::vector<Bucket>& buckets,
                   comm::ProcessGroup& group, const OptimizerFactory& make,
                   std::optional<double> clip_norm = std::nullopt);
  ~ShardedOptimizer() override;

  /// Collective.
  void step() override;
  std::string_view name() const override;

  /// This rank's part only: what the optimizer of each bucket's shard has for its pieces.
  std::vector<std::pair<std::string, tensor::Tensor>> state() override;

  /// Collective. On rank 0 copies of the whole state, with the names and shapes that the ordinary optimizer gives them,
  /// so that a checkpoint fits any number of ranks, with sharding or without; elsewhere nothing.
  NamedTensors full_state();
  /// Collective. Rank 0's `state`, named and shaped as full_state() gives it, becomes everybody's.
  void load_full_state(const NamedTensors& state);

  /// Of state(); every rank has its own number.
  std::size_t state_bytes();
  /// What the ordinary optimizer would keep on every rank.
  std::size_t whole_state_bytes() const;

 private:
  struct BucketPart;

  /// How an entry of the state belongs to parameters.
  enum class Extent { PerElement, PerParameter, Global };
  struct Entry {
    std::string key;  // "exp_avg", "step", "schedule.step"
    Extent extent;
    tensor::DType dtype;
  };

  void find_gradients(BucketPart& part);
  void clip();
  void gather_parameters(std::size_t bucket);
  /// A tensor of the whole state, zeros to begin with, and this rank's own parts: their places in it, and what is held.
  using UseOfState = std::function<void(const std::string& name, tensor::Tensor& whole,
                                        std::vector<std::pair<tensor::Tensor, tensor::Tensor>>& mine)>;
  std::vector<Entry> entries() const;
  tensor::Shape shape_of(const Entry& entry, std::size_t parameter) const;
  /// For all of full_state(), in its order.
  void for_whole_state(const UseOfState& use);

  comm::ProcessGroup& group_;
  OptimizerFactory make_;
  std::optional<double> clip_norm_;
  std::vector<BucketPart> parts_;
  PendingWorks works_;
};

/// What a checkpoint holds of any optimizer, under plain names. Collective when `optimizer` is a ShardedOptimizer, and
/// complete on rank 0 only then; else its state().
NamedTensors full_optimizer_state(nn::Optimizer& optimizer);

/// Collective. Rank 0's tensors, as full_optimizer_state() gave them and maybe written to since, become everybody's.
void share_optimizer_state(comm::ProcessGroup& group, nn::Optimizer& optimizer, const NamedTensors& state);

}  // namespace tutti::trainer
