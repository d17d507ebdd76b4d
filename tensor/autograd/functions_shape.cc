// reshape, flatten, permute: the same elements under another shape. No copy for contiguous data, forward or backward;
// what permute returns is packed by whoever reads it.
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tensor {
namespace {

// Axis i of the result is axis axes[i] of a: the right axis is swapped into each place in turn.
Tensor permuted(Tensor a, std::vector<int> axes) {
  for (int place = 0; place < static_cast<int>(axes.size()); ++place) {
    const int from = axes[static_cast<std::size_t>(place)];
    if (from == place) continue;
    a = a.transpose(place, from);
    // What lay at `place` lies at `from` now.
    for (std::size_t later = static_cast<std::size_t>(place) + 1; later < axes.size(); ++later) {
      if (axes[later] == place) axes[later] = from;
    }
  }
  return a;
}

struct ReshapeNode final : Node {
  Shape input_shape;

  const char* name() const override { return "reshape"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override { inputs.pass(0, grad.reshape(input_shape)); }
};

struct PermuteNode final : Node {
  std::vector<int> inverse;

  const char* name() const override { return "permute"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override { inputs.pass(0, permuted(grad, inverse)); }
};

// From the end counted axes as counted from the start. Throws unless each axis is there once.
std::vector<int> checked_axes(const Shape& shape, const std::vector<int>& axes) {
  std::vector<int> plain;
  std::string listed;
  for (const int axis : axes) {
    plain.push_back(axis < 0 ? axis + shape.rank() : axis);
    listed += (listed.empty() ? "" : ", ") + std::to_string(axis);
  }
  std::vector<int> sorted = plain;
  std::ranges::sort(sorted);
  std::vector<int> all(static_cast<std::size_t>(shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    throw std::invalid_argument("permute: the axes (" + listed + ") do not name each axis of " + shape.to_string() +
                                " once");
  }
  return plain;
}

}  // namespace

Variable reshape(const Variable& a, const Shape& shape) {
  Tensor y = a.data().reshape(shape);
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<ReshapeNode>();
  node->input_shape = a.shape();
  return recorded(std::move(y), std::move(node), {&a});
}

Variable permute(const Variable& a, const std::vector<int>& axes) {
  const std::vector<int> plain = checked_axes(a.shape(), axes);
  Tensor y = permuted(a.data(), plain);
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<PermuteNode>();
  node->inverse.resize(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    node->inverse[static_cast<std::size_t>(plain[i])] = static_cast<int>(i);
  return recorded(std::move(y), std::move(node), {&a});
}

Variable flatten(const Variable& a) {
  const Shape& shape = a.shape();
  if (shape.rank() == 0) throw std::invalid_argument("flatten: shape () has no batch dimension to keep");
  std::int64_t rest = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) rest *= shape[axis];
  return reshape(a, {shape[0], rest});
}

}  // namespace tutti::tensor
