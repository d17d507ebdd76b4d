// Comm hooks: gradient exchanges that send less than all_reduce does. After each of them all ranks hold the same bits.
//
//   bf16, fp16  every number is rounded to 16 bits: each rank's part once, then every partial sum of the all_reduce
//               (which adds in float). bf16 keeps float's range and 8 significant bits, fp16 keeps 11, and numbers
//               beyond 65504 become infinite.
//   topk        the largest numbers of each parameter; what was left out is remembered on its rank and added to the
//               next step's gradient (error feedback: Stich et al., "Sparsified SGD with Memory",
//               https://arxiv.org/abs/1809.07599). Ranks gather each other's values and indices, so that the bytes
//               received grow with the number of ranks.
//
// topk sends parameters with fewer than two axes whole: they are small, and sensitive. It needs memory of the
// gradients' size. What it remembers is a rank's own (GradientExchange::state); without it a run goes on, but not with
// the same bits.
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tutti::trainer {

struct CommHookOptions {
  std::string hook = "none";   // or "bf16", "fp16", "topk"
  double topk_density = 0.05;  // part of each parameter's numbers that is sent; above 0, at most 1
};

/// Empty for "none". What it makes throws std::invalid_argument for a bucket that is not float32. Throws
/// std::invalid_argument naming an option that is out of range.
ExchangeFactory make_comm_hook(const CommHookOptions& options);

// What topk is made of (top_k.cc).

/// Sends ceil(density * count) numbers of a parameter with two axes or more, and all of the others. `density` above 0,
/// at most 1. With density 1 the sum is that of the ranks in their order, and nothing is remembered.
std::unique_ptr<GradientExchange> make_top_k_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                      double density);

/// Writes the positions of the indices.size() numbers with the largest magnitudes, in ascending order. Of equal ones
/// the first are taken; a NaN counts as larger than all numbers, so that it is not hidden. Takes time in proportion to
/// values.size() (a radix selection). Throws std::invalid_argument for more indices than values, or than an int32 can
/// number. Pure function.
void largest_magnitudes(std::span<const float> values, std::span<std::int32_t> indices);

}  // namespace tutti::trainer
