// matmul and linear: matrix products and their gradients.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

// y (N, O) = a (N, I) b (I, O);  da = dy b^T, db = a^T dy
struct MatmulNode final : Node {
  Tensor a;  // saved when b needs a gradient
  Tensor b;  // and the other way round

  const char* name() const override { return "matmul"; }
  void release() override { a = b = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write_sum(1, [&](Tensor& db, bool accumulate) { k.gemm(db, a, true, grad, false, accumulate); });
    inputs.write(0, [&](Tensor& da, bool accumulate) { k.gemm(da, grad, false, b, true, accumulate); });
  }
};

// y (N, O) = activation(x (N, I) w (O, I)^T + b (O)). With dz = dy where the activation let it pass:
// dw = dz^T x, db = column sums of dz, dx = dz w.
struct LinearNode final : Node {
  Tensor x;  // saved when w needs a gradient
  Tensor w;  // saved when x needs a gradient
  Tensor y;  // saved when the activation is relu: positive where the gradient passes

  const char* name() const override { return "linear"; }
  void release() override { x = w = y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    if (y.defined()) grad = through_relu(std::move(grad), y);
    // Parameters first: whoever waits for them may start while dx is computed.
    inputs.write_sum(1, [&](Tensor& dw, bool accumulate) { k.gemm(dw, grad, true, x, false, accumulate); });
    inputs.write_sum(2, [&](Tensor& db, bool accumulate) { k.column_sum(db, grad, accumulate); });
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.gemm(dx, grad, false, w, false, accumulate); });
  }
};

void check_linear(const Tensor& x, const Tensor& w, const Variable& b) {
  check_rank("linear (x)", x, 2);
  check_rank("linear (w)", w, 2);
  check_same_type("linear", x, w);
  if (x.shape()[1] != w.shape()[1]) refuse("linear", x, w, "do not fit: x is (N, I), w is (O, I)");
  if (!b.defined()) return;
  check_same_type("linear", w, b.data());
  if (b.data().rank() != 1 || b.data().shape()[0] != w.shape()[0]) {
    refuse("linear", w, b.data(), "do not fit: w is (O, I), b is (O)");
  }
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  check_rank("matmul (left)", a.data(), 2);
  check_rank("matmul (right)", b.data(), 2);
  check_same_type("matmul", a.data(), b.data());
  if (a.shape()[1] != b.shape()[0]) refuse("matmul", a.data(), b.data(), "do not fit: (N, I) x (I, O)");
  const Tensor left = a.data().contiguous();
  const Tensor right = b.data().contiguous();
  Tensor y = Tensor::empty({left.shape()[0], right.shape()[1]}, left.dtype(), left.device());
  kernels(y.device()).gemm(y, left, false, right, false, false);
  if (!must_record({&a, &b})) return Variable(std::move(y));
  auto node = std::make_shared<MatmulNode>();
  if (b.requires_grad()) node->a = left;
  if (a.requires_grad()) node->b = right;
  return recorded(std::move(y), std::move(node), {&a, &b});
}

Variable linear(const Variable& x, const Variable& w, const Variable& b, Activation activation) {
  check_linear(x.data(), w.data(), b);
  const Tensor input = x.data().contiguous();
  const Tensor weight = w.data().contiguous();
  const Tensor bias = b.defined() ? b.data().contiguous() : Tensor{};
  const bool relu = activation == Activation::Relu;
  Tensor y = Tensor::empty({input.shape()[0], weight.shape()[0]}, input.dtype(), input.device());
  kernels(input.device()).linear(y, input, weight, bias, relu);
  if (!must_record({&x, &w, &b})) return Variable(std::move(y));
  auto node = std::make_shared<LinearNode>();
  if (w.requires_grad()) node->x = input;
  if (x.requires_grad()) node->w = weight;
  if (relu) node->y = y;
  return recorded(std::move(y), std::move(node), {&x, &w, &b});
}

}  // namespace tutti::tensor
