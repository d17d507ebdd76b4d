// The engine: runs a record backwards.
//
// 1. Walk from the root and count, for each node and leaf, how many contributions it will get. Nothing is changed yet,
// so
//    a record that was used already is refused with all gradients intact.
// 2. Repeat: of the nodes whose contributions are all there take the one recorded last, run its backward, free what it
//    saved. It delivers gradients into the slots of the nodes before it, or straight into the leaves' memory; a leaf is
//    announced the moment its last contribution is in.
// The order depends on the recorded program only, so it is the same on every rank. No recursion.
#pragma once

#include <tutti/tensor/autograd/variable_impl.h>

#include <memory>

namespace tutti::tensor {

/// Runs backward from `root`, whose gradient is `seed` (same shape and type; checked by the caller).
void run_backward(const std::shared_ptr<Variable::Impl>& root, const Tensor& seed);

}  // namespace tutti::tensor
