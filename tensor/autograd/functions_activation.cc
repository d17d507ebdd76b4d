// relu6, silu, sigmoid, tanh.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>

namespace tutti::tensor {
namespace {

struct CurveNode final : Node {
  const char* label = "";
  Curve curve = Curve::Relu6;
  Tensor saved;  // x for silu, whose slope y does not tell; y for the others

  const char* name() const override { return label; }
  void release() override { saved = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    if (grad.use_count() == 1) {
      k.curve_backward(grad, grad, saved, curve, false);
      inputs.pass(0, grad);
      return;
    }
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.curve_backward(dx, grad, saved, curve, accumulate); });
  }
};

Variable curved(const char* label, const Variable& x, Curve curve) {
  check_floating(label, x.data());
  const Tensor input = x.data().contiguous();
  Tensor y = Tensor::empty(input.shape(), input.dtype(), input.device());
  kernels(input.device()).curve(y, input, curve);
  if (!must_record({&x})) return Variable(std::move(y));
  auto node = std::make_shared<CurveNode>();
  node->label = label;
  node->curve = curve;
  node->saved = curve == Curve::Silu ? input : y;
  return recorded(std::move(y), std::move(node), {&x});
}

}  // namespace

Variable relu6(const Variable& x) { return curved("relu6", x, Curve::Relu6); }
Variable silu(const Variable& x) { return curved("silu", x, Curve::Silu); }
Variable sigmoid(const Variable& x) { return curved("sigmoid", x, Curve::Sigmoid); }
Variable tanh(const Variable& x) { return curved("tanh", x, Curve::Tanh); }

}  // namespace tutti::tensor
