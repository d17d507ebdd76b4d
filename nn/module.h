// Module: a function with named parameters, in PyTorch's naming: "0.weight", "fc1.bias", "layer1.0.conv1.weight".
//
// Ownership: a module owns its children (shared_ptr) and its parameters (Variable handles). Registration order is the
// order of named_parameters() and is the same on every rank that builds the same model.
// Thread-safety: none; one thread uses a model at a time.
#pragma once

#include <tutti/tensor/autograd/variable.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::nn {

using tensor::Tensor;
using tensor::Variable;

class Module {
 public:
  virtual ~Module() = default;

  virtual Variable forward(const Variable& input) = 0;
  virtual std::string describe() const = 0;  // "Linear(784, 50)"

  /// Dotted names, depth first, in registration order.
  std::vector<std::pair<std::string, Variable>> named_parameters() const;
  /// State that is saved and broadcast but not trained (running statistics).
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  std::int64_t parameter_count() const;
  /// Direct children by their names, in registration order: the parts that a model can be cut into.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& named_children() const { return children_; }
  /// The direct child of that name. Throws std::invalid_argument listing those there are.
  std::shared_ptr<Module> child(std::string_view name) const;
  void zero_grad();

  /// Places parameters (with their gradients) and buffers on `device`, recursively; counters (int64 buffers) stay with
  /// the host that counts, when it is a GPU. A model whose parts are placed on
  /// different devices moves what passes between them with tensor::to. Before an optimizer is made for it and before
  /// DataParallel takes it: std::logic_error once gradients live in buckets.
  void to(tensor::Device device);

  /// Calls `action` for every module below this one, children before their parent, and for this one at last.
  void apply(const std::function<void(Module&)>& action);

  void train(bool on = true);  // recursively
  bool is_training() const { return training_; }

 protected:
  Variable register_parameter(std::string name, Tensor initial);
  Tensor register_buffer(std::string name, Tensor initial);
  template <typename M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> child) {
    children_.emplace_back(std::move(name), child);
    return child;
  }

 private:
  std::vector<std::pair<std::string, Variable>> parameters_;
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

}  // namespace tutti::nn
