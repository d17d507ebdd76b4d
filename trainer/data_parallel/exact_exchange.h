// The exchange of exact sums: gradients whose bits do not depend on the number of ranks, on how samples are dealt to
// them, on the sizes of buckets, or on the transport.
//
// Idea. Buckets of float32 gradients are float64 memory. Backward then gives exact sums over a rank's samples
// (tensor/cpu/exact_sum.h): multiples of 2^-47. Such numbers add up without rounding, so that the sum over ranks is
// the sum over samples, in whatever order an all_reduce takes it. It becomes float32 once, at the end, on the way into
// memory of its own (ProcessGroup::all_reduce_rounded).
// What else a sample contributes must not depend on the others of its batch: no batch norm, and a loss whose seed is
// the same whatever the division (train_step.cc).
//
// Cost: 8 bytes for each gradient that are sent, or read in shared memory, where float32 has 4; memory for 12 in place
// of 4; weight gradients of linear layers at half the speed, those of convolutions at nearly the same.
// Limits: gradients from 16 on are float64 sums, whose last bits may show the order, though seldom after the rounding.
#pragma once

#include <tutti/tensor/tensor.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <memory>

namespace tutti::trainer {

/// For parameters on the CPU. Buckets of float64 parameters are summed as they are.
std::unique_ptr<GradientExchange> make_exact_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

// Exact sums in float64 buckets, and the float32 gradients that they become; what exchanges of exact sums share.
// Thread-safety: pure functions on the caller's tensors.

/// Of the memory of a bucket of `dtype`: float64 for float32, of anything else the same.
tensor::DType type_of_sums(tensor::DType dtype);

/// `rounded` (float32) becomes the sums (float64), as far as both go. Zero has no sign afterwards: whether it had one
/// depends on who had no term to add.
void round_sums(const tensor::Tensor& sums, tensor::Tensor& rounded);

}  // namespace tutti::trainer
