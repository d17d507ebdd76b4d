// GradientExchange: how one bucket's gradients become their sum over all ranks. Plain all_reduce is one way; others
// compress, or sum without rounding.
//
// DataParallel drives it, in every step: begin(0), begin(1), ... as backward completes the buckets, then finish(0),
// finish(1), ... Both orders are the same on every rank, which is all that collectives ask for. Between begin and
// finish the bucket's memory belongs to the exchange.
//
// Ownership: DataParallel owns it and keeps the group and the buckets' memory alive longer. Thread-safety: none; the
// training thread alone calls it.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/tensor.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::trainer {

/// What an exchange may want to know before the first step; the same on every rank.
struct ExchangePlan {
  std::vector<Bucket> buckets;
  std::vector<tensor::Shape> shapes;  // of the parameters, in registration order
};

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  /// Collective, once for each bucket, in their order: memory for its `count` elements. By default the group's own, in
  /// which the ranks of a host reduce. May be of a wider type (tensor::Variable::set_grad_memory), given result().
  virtual tensor::Tensor bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype);

  /// Starts on bucket number `bucket`: `gradients` (flat) is this rank's part of the sum. May work asynchronously, and
  /// write result(). The last bucket's begin has no computing left to hide behind, and may as well do all of the work.
  virtual void begin(std::size_t bucket, tensor::Tensor& gradients) = 0;

  /// Blocks until `gradients` is the sum over all ranks, bit for bit the same on every rank. Rethrows communication
  /// errors.
  virtual void finish(std::size_t bucket, tensor::Tensor& gradients) = 0;

  /// Memory of its own into which finish() puts the sum; undefined: the sum is in the bucket itself. The same every
  /// time, from bucket_memory() on.
  virtual tensor::Tensor result(std::size_t /*bucket*/) { return {}; }

  /// The step is given up after an error: blocks (no longer than the group's deadline) until nothing that was begun
  /// touches a bucket any more.
  virtual void abandon() noexcept = 0;

  /// True: every element becomes the sum of that element alone, exactly for small whole numbers. DataParallel then lets
  /// a few such numbers of its own travel at the end of the last bucket.
  virtual bool sums_elementwise() const = 0;

  virtual std::string name() const = 0;

  /// What it remembers from step to step on this rank, by name; shares its memory. Empty when it has no memory.
  virtual std::vector<std::pair<std::string, tensor::Tensor>> state() { return {}; }
};

using ExchangeFactory = std::function<std::unique_ptr<GradientExchange>(comm::ProcessGroup&, const ExchangePlan&)>;

/// all_reduce in place, asynchronous for all buckets but the last.
std::unique_ptr<GradientExchange> make_all_reduce_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

/// For parameters on `device`, a GPU: `inner`, which is for the CPU's, on copies of the buckets.
std::unique_ptr<GradientExchange> make_copied_exchange(std::unique_ptr<GradientExchange> inner, tensor::Device device);

// The exchange of exact sums: gradients whose bits do not depend on the number of ranks, on how samples are dealt to
// them, on the sizes of buckets, or on the transport.
//
// Idea. Buckets of float32 gradients are float64 memory. Backward then gives exact sums over a rank's samples
// (tensor/cpu/exact_sum.h): multiples of 2^-47. Such numbers add up without rounding, so that the sum over ranks is
// the sum over samples, in whatever order an all_reduce takes it. It becomes float32 once, at the end, on the way into
// memory of its own (ProcessGroup::all_reduce_rounded).
// Weights of large linear layers are the exception: their gradients are float32 sums over all ranks' samples, in one
// order (shared_batch.h), of which each rank brings some rows, and zeros; an all_reduce of these is exact as well.
// What else a sample contributes must not depend on how the batch is divided: batch norm has exact statistics of all
// ranks then (shared_batch.h), and the loss a seed that is the same whatever the division (train_step.cc).
//
// Cost: 8 bytes for each gradient that are sent, or read in shared memory, where float32 has 4; memory for 12 in place
// of 4; weight gradients of small linear layers at half the speed, those of convolutions at nearly the same.
// Limits: gradients from 16 on are float64 sums, whose last bits may show the order, though seldom after the rounding.

/// For parameters on the CPU. Buckets of float64 parameters are summed as they are.
std::unique_ptr<GradientExchange> make_exact_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

// Exact sums in float64 buckets, and the float32 gradients that they become; what exchanges of exact sums share.
// Thread-safety: pure functions on the caller's tensors.

/// Of a bucket's memory: float64 for float32, but for whole gradients; of anything else the same.
tensor::DType type_of_sums(const Bucket& bucket);

/// `rounded` (float32) becomes the sums (float64), as far as both go. Zero has no sign afterwards: whether it had one
/// depends on who had no term to add.
void round_sums(const tensor::Tensor& sums, tensor::Tensor& rounded);

}  // namespace tutti::trainer
