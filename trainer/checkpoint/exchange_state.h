// What gradient exchanges remember (error feedback, PowerSGD's matrices), of all ranks, for a checkpoint.
//
// Every rank's exchange remembers tensors of the same names and shapes and with values of its own. In a checkpoint each
// name has one tensor (world size, elements), whose row r is rank r's. Both functions are collective.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>

namespace tutti::trainer {

/// On rank 0 copies of all ranks' memories; elsewhere nothing. `exchange` may be null, and nothing is sent when it has
/// no memory.
NamedTensors gather_exchange_state(comm::ProcessGroup& group, GradientExchange* exchange);

/// The inverse: rank 0's `state`, of as many ranks as this group has, into everybody's exchange. Throws
/// std::runtime_error on every rank when names or shapes differ.
void scatter_exchange_state(comm::ProcessGroup& group, const NamedTensors& state, GradientExchange& exchange);

}  // namespace tutti::trainer
