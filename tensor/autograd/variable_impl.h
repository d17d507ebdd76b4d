// What a Variable handle points to. Private to tensor/autograd.
#pragma once

#include <tutti/tensor/autograd/variable.h>

#include <functional>
#include <memory>

namespace tutti::tensor {

/// The part that only leaves with a gradient have.
struct LeafState {
  Tensor grad;    // undefined: no gradient yet
  Tensor memory;  // given by set_grad_memory, or undefined
  std::function<void()> on_ready;
  int pending = 0;  // contributions that the running pass still owes this leaf
};

struct Variable::Impl {
  Tensor data;
  bool requires_grad = false;
  std::shared_ptr<Node> producer;   // null: a leaf
  std::unique_ptr<LeafState> leaf;  // leaves that require a gradient; others get one when first asked

  LeafState& leaf_state() {
    if (!leaf) leaf = std::make_unique<LeafState>();
    return *leaf;
  }
};

}  // namespace tutti::tensor
