#include <tutti/tensor/autograd/engine.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/autograd/variable.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

Variable::Impl& checked(const std::shared_ptr<Variable::Impl>& impl) {
  if (!impl) throw std::logic_error("an undefined Variable was used (default-constructed and never assigned)");
  return *impl;
}

LeafState& checked_leaf(const std::shared_ptr<Variable::Impl>& impl, const char* what) {
  if (checked(impl).producer) {
    throw std::logic_error(std::string(what) + " of the intermediate result of " + impl->producer->name() +
                           ": only leaves keep a gradient");
  }
  return impl->leaf_state();
}

}  // namespace

Variable::Variable(Tensor data, bool requires_grad) {
  if (!data.defined()) throw std::invalid_argument("a Variable needs a defined tensor");
  if (requires_grad && data.dtype() != DType::Float32 && data.dtype() != DType::Float64) {
    throw std::invalid_argument("a " + std::string(name(data.dtype())) +
                                " tensor cannot require a gradient: only float32 and float64 can");
  }
  impl_ = std::make_shared<Impl>();
  impl_->data = std::move(data);
  impl_->requires_grad = requires_grad;
}

const Tensor& Variable::data() const { return checked(impl_).data; }

Tensor& Variable::data() { return checked(impl_).data; }

bool Variable::requires_grad() const { return checked(impl_).requires_grad; }

bool Variable::is_leaf() const { return checked(impl_).producer == nullptr; }

void Variable::backward() {
  if (data().numel() != 1) {
    throw std::invalid_argument("backward() of shape " + shape().to_string() +
                                " needs an explicit seed of that shape; only one element has the implied seed 1");
  }
  backward(Tensor::full(shape(), 1.0, data().dtype(), data().device()));
}

void Variable::backward(const Tensor& seed) {
  Impl& impl = checked(impl_);
  if (!impl.requires_grad) {
    throw std::logic_error(
        "backward() of a Variable that records nothing: no input required a gradient, or NoGrad was on");
  }
  if (!seed.defined() || seed.shape() != impl.data.shape() || seed.dtype() != impl.data.dtype()) {
    throw std::invalid_argument(
        "backward: the seed is " +
        (seed.defined() ? std::string(name(seed.dtype())) + " " + seed.shape().to_string() : "undefined") +
        ", the result " + std::string(name(impl.data.dtype())) + " " + impl.data.shape().to_string());
  }
  if (seed.device() != impl.data.device()) {
    throw std::invalid_argument("backward: the seed is on " + name(seed.device()) + ", the result on " +
                                name(impl.data.device()));
  }
  run_backward(impl_, seed);
}

const Tensor& Variable::grad() const { return checked_leaf(impl_, "grad()").grad; }

Tensor& Variable::grad() { return checked_leaf(impl_, "grad()").grad; }

bool Variable::has_grad() const {
  const Impl& impl = checked(impl_);
  return impl.leaf && impl.leaf->grad.defined();
}

void Variable::zero_grad() {
  Impl& impl = checked(impl_);
  if (impl.leaf) impl.leaf->grad = {};
}

void Variable::set_grad_memory(Tensor memory) {
  LeafState& leaf = checked_leaf(impl_, "set_grad_memory()");
  const Tensor& data = impl_->data;
  const bool exact_sum = memory.defined() && memory.dtype() == DType::Float64 && data.dtype() == DType::Float32 &&
                         data.device().kind == Device::Kind::Cpu;
  if (!memory.defined() || memory.shape() != data.shape() || (memory.dtype() != data.dtype() && !exact_sum) ||
      !memory.is_contiguous()) {
    throw std::invalid_argument("set_grad_memory: a contiguous " + std::string(name(data.dtype())) +
                                " tensor of shape " + data.shape().to_string() + " is needed, got " +
                                (memory.defined() ? std::string(memory.is_contiguous() ? "a " : "a non-contiguous ") +
                                                        std::string(name(memory.dtype())) + " one of shape " +
                                                        memory.shape().to_string()
                                                  : "an undefined one"));
  }
  if (memory.device() != data.device()) {
    throw std::invalid_argument("set_grad_memory: the memory is on " + name(memory.device()) + ", the leaf on " +
                                name(data.device()));
  }
  if (leaf.grad.defined()) {
    memory.copy_from(leaf.grad.to(memory.dtype()));
    leaf.grad = memory;
  }
  leaf.memory = std::move(memory);
}

void Variable::move_to(Device device) {
  LeafState& leaf = checked_leaf(impl_, "move_to()");
  if (device == impl_->data.device()) return;
  if (leaf.memory.defined()) {
    throw std::logic_error("a parameter of shape " + shape().to_string() + " cannot move from " +
                           name(impl_->data.device()) + " to " + name(device) +
                           ": its gradient lives in memory given by set_grad_memory (a bucket of DataParallel, say); "
                           "place the model first");
  }
  impl_->data.move_to(device);
  if (leaf.grad.defined()) leaf.grad = leaf.grad.to(device);
}

void Variable::on_grad_ready(std::function<void()> callback) {
  checked_leaf(impl_, "on_grad_ready()").on_ready = std::move(callback);
}

Variable Variable::detach() const { return Variable(data()); }

}  // namespace tutti::tensor
