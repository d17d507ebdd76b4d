// add, sub, mul, div, scale, sum, mean, relu: element-wise operations and full reductions.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>

namespace tutti::tensor {
namespace {

Tensor empty_like(const Tensor& a) { return Tensor::empty(a.shape(), a.dtype(), a.device()); }

struct AddNode final : Node {
  const char* name() const override { return "add"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    inputs.pass(0, grad);
    inputs.pass(1, grad);
  }
};

struct SubNode final : Node {
  const char* name() const override { return "sub"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(1, [&](Tensor& db, bool accumulate) { k.scale(db, grad, -1, accumulate); });
    inputs.pass(0, grad);
  }
};

// d(a / b) = da / b - y / b db, with y = a / b
struct DivNode final : Node {
  Tensor b;
  Tensor y;  // saved when b needs a gradient

  const char* name() const override { return "div"; }
  void release() override { b = y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    Tensor quotient = grad.use_count() == 1 ? grad : empty_like(grad);
    k.div(quotient, grad, b);
    inputs.write(1, [&](Tensor& db, bool accumulate) {
      Tensor product = empty_like(y);
      k.mul(product, quotient, y, false);
      k.scale(db, product, -1, accumulate);
    });
    inputs.pass(0, quotient);
  }
};

// d(ab) = b da + a db
struct MulNode final : Node {
  Tensor a;  // saved when b needs a gradient
  Tensor b;  // and the other way round

  const char* name() const override { return "mul"; }
  void release() override { a = b = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& da, bool accumulate) { k.mul(da, grad, b, accumulate); });
    inputs.write(1, [&](Tensor& db, bool accumulate) { k.mul(db, grad, a, accumulate); });
  }
};

struct ScaleNode final : Node {
  double factor = 1;

  const char* name() const override { return "scale"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& da, bool accumulate) { k.scale(da, grad, factor, accumulate); });
  }
};

// Each element of a adds factor times itself to the result.
struct SumNode final : Node {
  double factor = 1;
  const char* label = "sum";

  const char* name() const override { return label; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& da, bool accumulate) { k.broadcast(da, grad, factor, accumulate); });
  }
};

struct ReluNode final : Node {
  Tensor y;  // positive where the gradient passes

  const char* name() const override { return "relu"; }
  void release() override { y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    if (grad.use_count() == 1) {
      k.relu_backward(grad, grad, y, false);
      inputs.pass(0, grad);
      return;
    }
    inputs.write(0, [&](Tensor& da, bool accumulate) { k.relu_backward(da, grad, y, accumulate); });
  }
};

Variable summed(const char* label, const Variable& a, double factor) {
  check_floating(label, a.data());
  Tensor y = Tensor::empty({}, a.data().dtype(), a.data().device());
  kernels(y.device()).sum(y, a.data().contiguous(), factor);
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<SumNode>();
  node->factor = factor;
  node->label = label;
  return recorded(std::move(y), std::move(node), {&a});
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  check_same("add", a.data(), b.data());
  Tensor y = empty_like(a.data());
  kernels(y.device()).add(y, a.data().contiguous(), b.data().contiguous());
  if (!must_record({&a, &b})) return Variable(std::move(y));
  return recorded(std::move(y), std::make_shared<AddNode>(), {&a, &b});
}

Variable mul(const Variable& a, const Variable& b) {
  check_same("mul", a.data(), b.data());
  const Tensor left = a.data().contiguous();
  const Tensor right = b.data().contiguous();
  Tensor y = empty_like(left);
  kernels(y.device()).mul(y, left, right, false);
  if (!must_record({&a, &b})) return Variable(std::move(y));
  auto node = std::make_shared<MulNode>();
  if (b.requires_grad()) node->a = left;
  if (a.requires_grad()) node->b = right;
  return recorded(std::move(y), std::move(node), {&a, &b});
}

Variable sub(const Variable& a, const Variable& b) {
  check_same("sub", a.data(), b.data());
  Tensor y = empty_like(a.data());
  kernels(y.device()).sub(y, a.data().contiguous(), b.data().contiguous());
  if (!must_record({&a, &b})) return Variable(std::move(y));
  return recorded(std::move(y), std::make_shared<SubNode>(), {&a, &b});
}

Variable div(const Variable& a, const Variable& b) {
  check_same("div", a.data(), b.data());
  const Tensor divisor = b.data().contiguous();
  Tensor y = empty_like(divisor);
  kernels(y.device()).div(y, a.data().contiguous(), divisor);
  if (!must_record({&a, &b})) return Variable(std::move(y));
  auto node = std::make_shared<DivNode>();
  node->b = divisor;
  if (b.requires_grad()) node->y = y;
  return recorded(std::move(y), std::move(node), {&a, &b});
}

Variable scale(const Variable& a, double factor) {
  check_floating("scale", a.data());
  Tensor y = empty_like(a.data());
  kernels(y.device()).scale(y, a.data().contiguous(), factor, false);
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<ScaleNode>();
  node->factor = factor;
  return recorded(std::move(y), std::move(node), {&a});
}

Variable sum(const Variable& a) { return summed("sum", a, 1.0); }

Variable mean(const Variable& a) { return summed("mean", a, 1.0 / static_cast<double>(a.data().numel())); }

Variable relu(const Variable& a) {
  check_floating("relu", a.data());
  Tensor y = empty_like(a.data());
  kernels(y.device()).relu(y, a.data().contiguous());
  if (!must_record({&a})) return Variable(std::move(y));
  auto node = std::make_shared<ReluNode>();
  node->y = y;
  return recorded(std::move(y), std::move(node), {&a});
}

}  // namespace tutti::tensor
