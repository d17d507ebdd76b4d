// The comm hooks bf16 and fp16: gradients travel, and are summed, as 16-bit numbers (comm_hooks.h).
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

namespace tutti::trainer {

/// T is comm::BFloat16 or comm::Half.
template <typename T>
std::unique_ptr<GradientExchange> make_half_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

}  // namespace tutti::trainer
