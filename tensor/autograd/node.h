// Node: one recorded operation, with the tensors its backward needs as named members. Functions in functions_*.cc
// define one struct each, beside their forward.
//
//   struct ScaleNode final : Node {
//     double factor;
//     const char* name() const override { return "scale"; }
//     void release() override {}
//     void backward(Tensor grad, InputGradients& inputs) override {
//       inputs.write(0, [&](Tensor& da, bool accumulate) { kernels(grad.device()).scale(da, grad, factor, accumulate);
//       });
//     }
//   };
//
// Ownership: a Variable owns the Node that made it; a Node owns the Nodes that made its inputs, and the leaves among
// them. A Node saves Tensors, never Variables: a Node that owned its own output would never be freed. Thread-safety:
// none; one thread records and runs a graph at a time.
#pragma once

#include <tutti/tensor/autograd/variable_impl.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tutti::tensor {

class BackwardPass;  // engine.cc

/// Where the gradient of one input goes: to the Node that made it, to a leaf, or (both null) nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<Variable::Impl> leaf;
  Shape shape;
  DType dtype = DType::Float32;
  Device device;

  bool needed() const { return node != nullptr || leaf != nullptr; }
};

/// What Node::backward delivers to. Each needed input must be delivered exactly once; the others are ignored. The
/// moment of delivery counts: a leaf whose last contribution arrives is announced at once, so parameters go before
/// inputs.
class InputGradients {
 public:
  InputGradients(BackwardPass& pass, Node& node) : pass_(pass), node_(node) {}

  bool needed(int input) const;

  /// Calls writer(Tensor& memory, bool accumulate) with the memory in which the gradient of `input` is wanted: the
  /// leaf's own (a bucket, say) or the engine's. accumulate false: overwrite every element; true: add. Not called if
  /// not needed.
  template <typename F>
  void write(int input, F&& writer) {
    if (!needed(input)) return;
    Destination destination = open(input, false);
    writer(destination.memory, destination.accumulate);
    close(input, destination);
  }

  /// The same for a writer whose kernel takes exact sums (ops.h): memory is float64 if the leaf of a float32 gradient
  /// asked for that (Variable::set_grad_memory).
  template <typename F>
  void write_sum(int input, F&& writer) {
    if (!needed(input)) return;
    Destination destination = open(input, true);
    writer(destination.memory, destination.accumulate);
    close(input, destination);
  }

  /// Delivers a tensor that exists already, without a copy where nobody else looks at the result. Any strides.
  void pass(int input, const Tensor& gradient);

  /// True when every needed input was delivered.
  bool complete() const;

 private:
  struct Destination {
    Tensor memory;
    bool accumulate;
    bool add = false;  // when memory is not the leaf's own: to what the leaf has
  };
  Destination open(int input, bool takes_exact_sums);
  void close(int input, const Destination& destination);
  void announce(int input);

  BackwardPass& pass_;
  Node& node_;
  std::uint64_t delivered_ = 0;  // bit per input
};

class Node {
 public:
  static constexpr int kMaxInputs = 64;

  Node() = default;
  virtual ~Node();  // iterative: a chain of any length dies without recursion
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// For error messages: the function's name.
  virtual const char* name() const = 0;
  /// grad has the output's shape and type and is contiguous. It may be written to when grad.use_count() == 1.
  virtual void backward(Tensor grad, InputGradients& inputs) = 0;
  /// Frees the saved tensors. Called right after backward.
  virtual void release() = 0;

 private:
  friend class BackwardPass;
  friend class InputGradients;
  friend Variable recorded(Tensor output, std::shared_ptr<Node> node, std::span<const Variable* const> inputs);

  void move_inputs_to(std::vector<std::shared_ptr<Node>>& nodes);

  std::vector<Edge> edges_;
  std::uint64_t sequence_ = 0;  // creation order within the process
  bool used_ = false;
  // During a pass:
  int pending_ = 0;  // contributions still to come
  Tensor slot_;      // their sum so far
};

/// True when an operation over these inputs must be recorded: gradients are enabled and one of them requires one.
/// Undefined Variables count as absent.
bool must_record(std::span<const Variable* const> inputs);
inline bool must_record(std::initializer_list<const Variable*> inputs) {
  return must_record(std::span(inputs.begin(), inputs.size()));
}

/// The Variable for `output`, made by `node` from `inputs` in the order that node's backward numbers them.
Variable recorded(Tensor output, std::shared_ptr<Node> node, std::span<const Variable* const> inputs);
inline Variable recorded(Tensor output, std::shared_ptr<Node> node, std::initializer_list<const Variable*> inputs) {
  return recorded(std::move(output), std::move(node), std::span(inputs.begin(), inputs.size()));
}

/// For the backward of an operation that ends in relu: `grad` where y = relu(...) is positive, else 0. In place when
/// the caller gave away the only handle.
Tensor through_relu(Tensor grad, const Tensor& y);

}  // namespace tutti::tensor
