// Samplers: which samples a rank sees in an epoch, and in which order. Pure functions of (options, epoch).
//
// Thread-safety: immutable after construction; any number of threads may ask.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::trainer {

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Indices into the data set, in order. Throws std::invalid_argument for a negative epoch.
  virtual std::vector<std::int64_t> indices(std::int64_t epoch) const = 0;
  /// How many indices every epoch has.
  virtual std::int64_t size() const = 0;
};

/// Cards of a deal of `cards` that `rank` of `ranks` gets, when rank 0 gets the first.
std::int64_t dealt(std::int64_t cards, int rank, int ranks);

struct SamplerOptions {
  std::int64_t count = 0;  // samples in the data set
  int replicas = 1;        // world size
  int rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // false: repeat samples so that all ranks get equally many; true: leave out the surplus
  bool padding = true;     // false, and not drop_last: no sample twice, none left out; ranks may differ by one sample
  int multiple = 1;        // of the samples of an epoch: padded or cut to it, so that it does not depend on replicas
  /// For ranks whose number changes within an epoch: samples of a step over all ranks, whatever their number. Each
  /// step's are dealt out by themselves, so that the first ranks may get one more than the others. 0: the epoch is one
  /// deal.
  std::int64_t global_batch = 0;
  int padded_for = 0;  // with global_batch: the number of ranks whose padding or cut it is; 0: replicas
};

/// Training. Exactly the order of PyTorch's torch.utils.data.DistributedSampler with the same arguments and
/// set_epoch(epoch): one permutation from seed + epoch for all ranks, padded or cut to a multiple of `replicas`, dealt
/// out like cards. Every rank gets equally many samples (but without padding), and step k of all ranks together takes
/// the same samples whatever the number of ranks. With a global batch that the ranks do not divide, too, and then
/// where ranks change between two steps. Algorithm:
/// https://github.com/pytorch/pytorch/blob/main/torch/utils/data/distributed.py
class DistributedSampler : public Sampler {
 public:
  /// Throws std::invalid_argument naming the field for a negative count, fewer than one replica, a rank outside
  /// [0, replicas), or a multiple below 1.
  explicit DistributedSampler(const SamplerOptions& options);

  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  std::int64_t size() const override { return size_of(options_.rank); }
  std::int64_t size_of(int rank) const;
  /// Samples of all ranks together.
  std::int64_t total() const { return total_; }
  /// Of all ranks together in step `step`, when each takes batches of `batch_size` (or all together the global batch).
  std::int64_t samples_of_step(std::int64_t step, std::int64_t batch_size) const;

 private:
  std::int64_t deal() const;

  SamplerOptions options_;
  std::int64_t total_ = 0;
};

/// Evaluation. Rank r sees samples [r N / R, (r + 1) N / R) in order: every sample exactly once over all ranks, none
/// repeated, so that sums over ranks are exact. Ranks may get different numbers, also none.
class EvaluationSampler : public Sampler {
 public:
  /// Throws as DistributedSampler does.
  EvaluationSampler(std::int64_t count, int replicas, int rank);

  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  std::int64_t size() const override { return end_ - begin_; }

 private:
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace tutti::trainer
