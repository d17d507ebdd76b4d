// reshape, flatten: the same elements under another shape. No copy for contiguous data, forward or backward.
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>

#include <memory>
#include <stdexcept>

namespace tutti::tensor {
namespace {

struct ReshapeNode final : Node {
  Shape input_shape;

  const char* name() const override { return "reshape"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override { inputs.pass(0, grad.reshape(input_shape)); }
};

}  // namespace

Variable reshape(const Variable& a, const Shape& shape) {
  Tensor y = a.data().reshape(shape);
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<ReshapeNode>();
  node->input_shape = a.shape();
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
