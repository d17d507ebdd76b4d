#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

// One count for the process: within a thread it grows in program order, which is all the engine needs.
std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> sequence{0};
  return sequence.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Node::~Node() {
  std::vector<std::shared_ptr<Node>> doomed;
  move_inputs_to(doomed);
  while (!doomed.empty()) {
    const std::shared_ptr<Node> node = std::move(doomed.back());
    doomed.pop_back();
    // The last owner: empty it first, so that its own destructor finds no chain to follow.
    if (node.use_count() == 1) node->move_inputs_to(doomed);
  }
}

void Node::move_inputs_to(std::vector<std::shared_ptr<Node>>& nodes) {
  for (Edge& edge : edges_) {
    if (edge.node) nodes.push_back(std::move(edge.node));
  }
  edges_.clear();
}

bool must_record(std::span<const Variable* const> inputs) {
  if (!grad_enabled()) return false;
  for (const Variable* input : inputs) {
    if (input->defined() && input->requires_grad()) return true;
  }
  return false;
}

Variable recorded(Tensor output, std::shared_ptr<Node> node, std::span<const Variable* const> inputs) {
  if (inputs.size() > static_cast<std::size_t>(Node::kMaxInputs)) {
    throw std::logic_error(std::string(node->name()) + ": more than 64 inputs cannot be recorded");
  }
  node->edges_.reserve(inputs.size());
  for (const Variable* input : inputs) {
    Edge& edge = node->edges_.emplace_back();
    if (!input->defined() || !input->requires_grad()) continue;
    const std::shared_ptr<Variable::Impl>& impl = input->impl();
    if (impl->producer) {
      edge.node = impl->producer;
    } else {
      edge.leaf = impl;
    }
    edge.shape = impl->data.shape();
    edge.dtype = impl->data.dtype();
    edge.device = impl->data.device();
  }
  node->sequence_ = next_sequence();
  Variable result(std::move(output));
  result.impl()->requires_grad = true;
  result.impl()->producer = std::move(node);
  return result;
}

Tensor through_relu(Tensor grad, const Tensor& y) {
  Tensor passed = grad.use_count() == 1 ? grad : Tensor::empty(grad.shape(), grad.dtype(), grad.device());
  kernels(grad.device()).relu_backward(passed, grad, y, false);
  return passed;
}

}  // namespace tutti::tensor
