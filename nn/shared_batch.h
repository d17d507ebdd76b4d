// Layers that may work on a batch of which several holders (processes, say) have a part each: BatchNorm2d and Linear.
// Thread-safety: none; functions of one model, which its owner calls.
#pragma once

#include <tutti/nn/batch_norm.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/module.h>

#include <cstdint>
#include <vector>

namespace tutti::nn {

std::vector<BatchNorm2d*> batch_norm_layers(const Module& model);

/// Those whose gradient, in float64, has more bytes than what it is made of: `samples` inputs and gradients of theirs
/// in float32, which move at less cost then.
std::vector<Linear*> large_linear_layers(const Module& model, std::int64_t samples);

/// Each layer of the model, if it is not null, has a batch of its own from now on.
void leave_shared_batch(const Module* model);

/// For each of named_parameters(): whether its gradient is that of the batch of all holders (Linear::share_batch_with).
std::vector<bool> have_whole_gradients(const Module& model);

}  // namespace tutti::nn
