// The comm hook topk: the largest numbers of each gradient, with error feedback (comm_hooks.h).
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

namespace tutti::trainer {

/// Sends ceil(density * count) numbers of a parameter with two axes or more, and all of the others. `density` above 0,
/// at most 1. With density 1 the sum is that of the ranks in their order, and nothing is remembered.
std::unique_ptr<GradientExchange> make_top_k_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                      double density);

}  // namespace tutti::trainer
