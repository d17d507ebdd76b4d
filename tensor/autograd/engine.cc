#include <tutti/tensor/autograd/engine.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tensor {
namespace {

std::string describe(const Shape& shape, DType dtype, Device device) {
  return std::string(name(dtype)) + " " + shape.to_string() + (device == Device{} ? "" : " on " + name(device));
}

// Float64 memory for a float32 gradient, as the leaf's owner asked for.
bool is_exact_sum(const LeafState& leaf, DType dtype) {
  return dtype == DType::Float32 && leaf.memory.defined() && leaf.memory.dtype() == DType::Float64 &&
         leaf.grad.dtype() == DType::Float64;
}

// Opens the leaf's own gradient for writing. Returns true when there is something to add to.
bool open_leaf(LeafState& leaf, const Shape& shape, DType dtype, Device device) {
  if (!leaf.grad.defined()) {
    leaf.grad = leaf.memory.defined() ? leaf.memory : Tensor::empty(shape, dtype, device);
    return false;
  }
  const bool fits = leaf.grad.dtype() == dtype || is_exact_sum(leaf, dtype);
  if (leaf.grad.shape() != shape || !fits || leaf.grad.device() != device) {
    throw std::logic_error("the gradient held by a leaf is " +
                           describe(leaf.grad.shape(), leaf.grad.dtype(), leaf.grad.device()) +
                           ", but backward brings " + describe(shape, dtype, device) +
                           "; call zero_grad() after replacing a leaf's data or gradient");
  }
  if (!leaf.grad.is_contiguous()) leaf.grad = leaf.grad.clone();
  return true;
}

// sum (+)= term, which may be of another type.
void add_to(Tensor& sum, const Tensor& term, bool accumulate) {
  if (accumulate) {
    kernels(sum.device()).add(sum, sum, term.to(sum.dtype()));
  } else {
    kernels(sum.device()).copy(sum, term);
  }
}

}  // namespace

// One run of the engine. Destroyed in mid-pass by an exception, it leaves no counts behind.
class BackwardPass {
 public:
  BackwardPass(const std::shared_ptr<Node>& root, const Tensor& seed) {
    count_contributions(root);
    root->slot_ = seed.contiguous();
    make_ready(*root);
  }

  ~BackwardPass() {
    for (const std::shared_ptr<Node>& node : nodes_) {
      node->pending_ = 0;
      node->slot_ = {};
    }
    for (const std::shared_ptr<Variable::Impl>& leaf : leaves_) leaf->leaf->pending = 0;
  }

  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  void run() {
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), recorded_earlier);
      Node& node = *ready_.back();
      ready_.pop_back();
      run_node(node);
    }
  }

  void delivered(Edge& edge) {
    if (edge.node) {
      if (--edge.node->pending_ == 0) make_ready(*edge.node);
      return;
    }
    LeafState& leaf = *edge.leaf->leaf;
    if (--leaf.pending == 0 && leaf.on_ready) leaf.on_ready();
  }

 private:
  static bool recorded_earlier(const Node* a, const Node* b) { return a->sequence_ < b->sequence_; }

  // nodes_ is the list of what was found and the queue of what to look at: breadth first, each node once.
  void count_contributions(const std::shared_ptr<Node>& root) {
    visit(root);
    for (std::size_t next = 0; next < nodes_.size(); ++next) {
      Node& node = *nodes_[next];  // stable: nodes_ holds pointers
      for (Edge& edge : node.edges_) {
        if (edge.node) {
          if (edge.node->pending_ == 0) visit(edge.node);
          ++edge.node->pending_;
        } else if (edge.leaf) {
          if (edge.leaf->leaf_state().pending++ == 0) leaves_.push_back(edge.leaf);
        }
      }
    }
  }

  void visit(const std::shared_ptr<Node>& node) {
    if (node->used_) {
      undo_counts();
      throw std::logic_error(std::string("backward reached a record that an earlier backward used up (operation ") +
                             node->name() + "): its saved tensors are freed; run the forward again first");
    }
    nodes_.push_back(node);
  }

  // The constructor has not finished, so the destructor will not run.
  void undo_counts() {
    for (const std::shared_ptr<Node>& node : nodes_) node->pending_ = 0;
    for (const std::shared_ptr<Variable::Impl>& leaf : leaves_) leaf->leaf->pending = 0;
  }

  void make_ready(Node& node) {
    ready_.push_back(&node);
    std::push_heap(ready_.begin(), ready_.end(), recorded_earlier);
  }

  void run_node(Node& node) {
    node.used_ = true;
    InputGradients inputs(*this, node);
    node.backward(std::exchange(node.slot_, {}), inputs);
    if (!inputs.complete()) {
      throw std::logic_error(std::string("the backward of ") + node.name() + " did not deliver every gradient it owes");
    }
    node.release();
  }

  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::shared_ptr<Variable::Impl>> leaves_;
  std::vector<Node*> ready_;  // max-heap by creation order
};

bool InputGradients::needed(int input) const { return node_.edges_[static_cast<std::size_t>(input)].needed(); }

bool InputGradients::complete() const {
  for (std::size_t i = 0; i < node_.edges_.size(); ++i) {
    if (node_.edges_[i].needed() && (delivered_ >> i & 1) == 0) return false;
  }
  return true;
}

InputGradients::Destination InputGradients::open(int input, bool takes_exact_sums) {
  if ((delivered_ >> input & 1) != 0) {
    throw std::logic_error(std::string("the backward of ") + node_.name() + " delivered the gradient of input " +
                           std::to_string(input) + " twice");
  }
  Edge& edge = node_.edges_[static_cast<std::size_t>(input)];
  if (edge.leaf) {
    LeafState& leaf = *edge.leaf->leaf;
    const bool accumulate = open_leaf(leaf, edge.shape, edge.dtype, edge.device);
    if (takes_exact_sums || leaf.grad.dtype() == edge.dtype) return {leaf.grad, accumulate};
    return {Tensor::empty(edge.shape, edge.dtype, edge.device), false, accumulate};
  }
  Tensor& slot = edge.node->slot_;
  if (!slot.defined()) {
    slot = Tensor::empty(edge.shape, edge.dtype, edge.device);
    return {slot, false};
  }
  // What was passed on earlier may be somebody else's too; only memory that is the slot's alone is added to.
  if (slot.use_count() != 1) slot = slot.clone();
  return {slot, true};
}

void InputGradients::close(int input, const Destination& destination) {
  Edge& edge = node_.edges_[static_cast<std::size_t>(input)];
  if (edge.leaf) {
    Tensor& grad = edge.leaf->leaf->grad;
    if (destination.memory.dtype() != grad.dtype()) add_to(grad, destination.memory, destination.add);
  }
  announce(input);
}

void InputGradients::announce(int input) {
  delivered_ |= std::uint64_t{1} << input;
  pass_.delivered(node_.edges_[static_cast<std::size_t>(input)]);
}

void InputGradients::pass(int input, const Tensor& gradient) {
  if (!needed(input)) return;
  Edge& edge = node_.edges_[static_cast<std::size_t>(input)];
  if (gradient.shape() != edge.shape || gradient.dtype() != edge.dtype || gradient.device() != edge.device) {
    throw std::logic_error(std::string("the backward of ") + node_.name() + " delivered " +
                           describe(gradient.shape(), gradient.dtype(), gradient.device()) + " for input " +
                           std::to_string(input) + ", which is " + describe(edge.shape, edge.dtype, edge.device));
  }
  if (edge.node && !edge.node->slot_.defined()) {
    edge.node->slot_ = gradient.contiguous();
    announce(input);
    return;
  }
  const KernelTable& k = kernels(edge.device);
  write(input, [&](Tensor& memory, bool accumulate) {
    if (accumulate) {
      k.add(memory, memory, gradient.contiguous());
    } else {
      k.copy(memory, gradient);
    }
  });
}

void run_backward(const std::shared_ptr<Variable::Impl>& root, const Tensor& seed) {
  if (root->producer) {
    BackwardPass(root->producer, seed).run();
    return;
  }
  LeafState& leaf = root->leaf_state();
  const Tensor packed = seed.contiguous();
  add_to(leaf.grad, packed, open_leaf(leaf, packed.shape(), packed.dtype(), packed.device()));
  if (leaf.on_ready) leaf.on_ready();
}

}  // namespace tutti::tensor
