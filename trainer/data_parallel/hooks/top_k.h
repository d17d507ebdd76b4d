// Which of many numbers are the largest. Pure functions.
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::trainer {

/// Writes the positions of the indices.size() numbers with the largest magnitudes, in ascending order. Of equal ones
/// the first are taken; a NaN counts as larger than all numbers, so that it is not hidden. Takes time in proportion to
/// values.size() (a radix selection). Throws std::invalid_argument for more indices than values, or than an int32 can
/// number.
void largest_magnitudes(std::span<const float> values, std::span<std::int32_t> indices);

// The comm hook topk: the largest numbers of each gradient, with error feedback (comm_hooks.h).

/// Sends ceil(density * count) numbers of a parameter with two axes or more, and all of the others. `density` above 0,
/// at most 1. With density 1 the sum is that of the ranks in their order, and nothing is remembered.
std::unique_ptr<GradientExchange> make_top_k_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                      double density);

}  // namespace tutti::trainer
