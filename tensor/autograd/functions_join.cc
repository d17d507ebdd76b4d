// concat, pad: copies into parts of a larger tensor. Backward hands out views of those parts.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace tutti::tensor {
namespace {

struct ConcatNode final : Node {
  int axis = 0;
  std::vector<std::int64_t> lengths;

  const char* name() const override { return "concat"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      inputs.pass(static_cast<int>(i), grad.narrow(axis, start, lengths[i]));
      start += lengths[i];
    }
  }
};

struct PadNode final : Node {
  std::vector<Margin> margins;
  Shape input_shape;

  const char* name() const override { return "pad"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override { inputs.pass(0, inner(grad)); }

  // What lies between the margins.
  Tensor inner(Tensor padded) const {
    for (int axis = 0; axis < input_shape.rank(); ++axis) {
      padded = padded.narrow(axis, margins[static_cast<std::size_t>(axis)].before, input_shape[axis]);
    }
    return padded;
  }
};

Shape with_extent(const Shape& shape, int axis, std::int64_t extent) {
  std::array<std::int64_t, kMaxRank> extents{};
  std::ranges::copy(shape.extents(), extents.begin());
  extents[static_cast<std::size_t>(axis)] = extent;
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.rank())));
}

// The axis counted from the start.
int check_concat(const std::vector<Variable>& inputs, int axis) {
  if (inputs.empty() || inputs.size() > static_cast<std::size_t>(Node::kMaxInputs)) {
    throw std::invalid_argument("concat: needs 1 to " + std::to_string(Node::kMaxInputs) + " inputs, got " +
                                std::to_string(inputs.size()) + "; join in several steps");
  }
  const Tensor& first = inputs.front().data();
  check_floating("concat", first);
  const int plain = axis < 0 ? axis + first.rank() : axis;
  if (plain < 0 || plain >= first.rank()) {
    throw std::invalid_argument("concat: axis " + std::to_string(axis) + " is not one of " + describe(first));
  }
  for (const Variable& input : inputs) {
    check_same_type("concat", first, input.data());
    const bool same_rank = input.data().rank() == first.rank();
    if (!same_rank || with_extent(input.shape(), plain, 0) != with_extent(first.shape(), plain, 0)) {
      refuse("concat", first, input.data(), ("differ in more than axis " + std::to_string(axis)).c_str());
    }
  }
  return plain;
}

void check_pad(const Tensor& a, const std::vector<Margin>& margins) {
  check_floating("pad", a);
  if (margins.size() != static_cast<std::size_t>(a.rank())) {
    throw std::invalid_argument("pad: " + std::to_string(margins.size()) + " margins for " + describe(a) +
                                ", which needs one for each axis");
  }
  for (std::size_t i = 0; i < margins.size(); ++i) {
    if (margins[i].before < 0 || margins[i].after < 0) {
      throw std::invalid_argument("pad: the margins of axis " + std::to_string(i) + " of " + describe(a) +
                                  " must not be negative, got " + std::to_string(margins[i].before) + " and " +
                                  std::to_string(margins[i].after));
    }
  }
}

}  // namespace

Variable concat(const std::vector<Variable>& inputs, int axis) {
  axis = check_concat(inputs, axis);
  auto node = std::make_shared<ConcatNode>();
  node->axis = axis;
  std::int64_t total = 0;
  std::vector<const Variable*> pointers;
  for (const Variable& input : inputs) {
    node->lengths.push_back(input.shape()[axis]);
    total += input.shape()[axis];
    pointers.push_back(&input);
  }
  const Tensor& first = inputs.front().data();
  Tensor y = Tensor::empty(with_extent(first.shape(), axis, total), first.dtype(), first.device());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    y.narrow(axis, start, node->lengths[i]).copy_from(inputs[i].data());
    start += node->lengths[i];
  }
  if (!must_record(pointers)) return Variable(std::move(y));
  return recorded(std::move(y), std::move(node), pointers);
}

Variable pad(const Variable& a, const std::vector<Margin>& margins, double value) {
  check_pad(a.data(), margins);
  auto node = std::make_shared<PadNode>();
  node->margins = margins;
  node->input_shape = a.shape();
  Shape shape = a.shape();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const Margin& margin = margins[static_cast<std::size_t>(axis)];
    shape = with_extent(shape, axis, margin.before + shape[axis] + margin.after);
  }
  Tensor y = Tensor::full(shape, value, a.data().dtype(), a.data().device());
  node->inner(y).copy_from(a.data());
  if (!must_record({&a})) return Variable(std::move(y));
  return recorded(std::move(y), std::move(node), {&a});
}

}  // namespace tutti::tensor
