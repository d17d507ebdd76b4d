// What a checkpoint holds beside the model, wherever its parts lie: the optimizer's state, which may be spread over
// ranks (sharded_optimizer.h), and what a gradient exchange remembers on each rank (error feedback: comm_hooks.h).
//
// In the file the optimizer's tensors have the names and shapes of the ordinary optimizer. The exchange's are called
// "exchange.<name>" and have the ranks as their first axis, so that rank 0 writes as many copies of the gradients' size
// as there are ranks. With as many ranks as before a run goes on bit for bit. With another number every rank gets an
// equal part of the sum of all errors, so that nothing is lost, and rank 0's memory of anything else; in a world of
// one, which sends nothing, and after one, there are no errors.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <string>

namespace tutti::trainer {

/// Collective; `exchange` may be null. Complete on rank 0. The optimizer's tensors may share its memory.
NamedTensors whole_training_state(comm::ProcessGroup& group, nn::Optimizer& optimizer, GradientExchange* exchange);

/// Copies what a checkpoint held into what whole_training_state() gave on rank 0. Throws as assign_tensors does;
/// `whole` is unchanged then. Local.
void assign_training_state(const NamedTensors& whole, const NamedTensors& saved, const std::string& origin);

/// Collective. Gives everybody its part of rank 0's `whole`; to be called with the same optimizer and exchange.
void share_training_state(comm::ProcessGroup& group, nn::Optimizer& optimizer, GradientExchange* exchange,
                          const NamedTensors& whole);

}  // namespace tutti::trainer
