// Variable: a tensor plus the record of where it came from. The only type that autograd sees.
//
//   Variable w(Tensor::full({2}, 3.0), /*requires_grad=*/true);
//   Variable y = sum(mul(w, w));      // recorded: y knows mul, mul knows w
//   y.backward();                     // w.grad() is now {6, 6}
//
// A Variable is a cheap handle; copies share data, gradient and history. A leaf is a Variable made by the user; its
// gradient stays until zero_grad(). Everything between is freed by backward(), so a second backward over the same
// record throws std::logic_error saying so. No double backward. Thread-safety: one thread records and runs a graph at a
// time.
#pragma once

#include <tutti/tensor/tensor.h>

#include <functional>
#include <memory>

namespace tutti::tensor {

class Node;  // node.h: one recorded operation

class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor data, bool requires_grad = false);

  bool defined() const { return impl_ != nullptr; }
  const Tensor& data() const;
  Tensor& data();
  const Shape& shape() const { return data().shape(); }
  bool requires_grad() const;
  bool is_leaf() const;

  /// Runs backward from this scalar (seed 1), or from any shape with an explicit seed of the same shape and type.
  /// Leaves' gradients are final as early as possible, in an order that depends on the recorded program only.
  /// Throws std::logic_error when nothing was recorded or the record was used already, std::invalid_argument for a seed
  /// that does not fit; gradients are unchanged then. When a kernel or callback throws in mid-pass, the gradients
  /// reached so far are unspecified and the record is used up.
  void backward();
  void backward(const Tensor& seed);

  /// The leaf's gradient; undefined before the first backward and after zero_grad(). Throws std::logic_error for an
  /// intermediate result, which keeps none.
  const Tensor& grad() const;
  Tensor& grad();
  bool has_grad() const;
  /// Forgets the gradient. Memory given by set_grad_memory is kept for the next backward and not cleared: the first
  /// gradient of a pass overwrites it, later ones add.
  void zero_grad();
  /// From now on the leaf's gradient lives in `memory` (same shape and type, contiguous): a view into a bucket, say. A
  /// gradient that exists already moves there. Throws std::invalid_argument for memory that does not fit.
  /// For a float32 leaf on the CPU memory may be float64. The gradient then is an exact sum over the samples of linear,
  /// matmul and conv2d, the same bits however they are divided into batches (ops.h), and becomes float32 when its owner
  /// says so; what other operations contribute is added in float64.
  void set_grad_memory(Tensor memory);
  /// Moves the leaf's data and gradient to `device`, for all its handles (to() is what moves an intermediate result).
  /// Throws std::logic_error for a leaf whose gradient memory was given by set_grad_memory.
  void move_to(Device device);
  /// Called on the thread that runs backward, once per backward pass that reaches this leaf, when its gradient is
  /// final. One callback per leaf: a later call replaces it, an empty function removes it. It must not run or record
  /// this graph.
  void on_grad_ready(std::function<void()> callback);

  /// Same data, no history.
  Variable detach() const;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// While one exists, operations on this thread record nothing (evaluation).
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};
bool grad_enabled();

}  // namespace tutti::tensor
