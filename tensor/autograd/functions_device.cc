// to: the same values on another device.
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <utility>

namespace tutti::tensor {
namespace {

struct ToDeviceNode final : Node {
  Device origin;

  const char* name() const override { return "to"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    inputs.write(0, [&](Tensor& da, bool accumulate) {
      if (accumulate) {
        kernels(origin).add(da, da, grad.to(origin));
      } else {
        da.copy_from(grad);
      }
    });
  }
};

}  // namespace

Variable to(const Variable& a, Device device) {
  const Device origin = a.data().device();
  if (device == origin) return a;
  Tensor moved = a.data().to(device);
  if (!must_record({&a})) return Variable(std::move(moved));
  auto node = std::make_shared<ToDeviceNode>();
  node->origin = origin;
  return recorded(std::move(moved), std::move(node), {&a});
}

}  // namespace tutti::tensor
