// matmul and linear: matrix products and their gradients.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <algorithm>
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

// All rows of `parts`, of which each has their number, and then, at `at`, rows of `width` numbers; in the order in
// which they were dealt: row j of all holders that have one, then row j + 1. Of each row `count` numbers from `first`.
Tensor in_order(const Tensor& parts, std::int64_t at, std::int64_t width, std::int64_t first, std::int64_t count) {
  const std::int64_t holders = parts.shape()[0];
  const auto part = [&](std::int64_t holder) { return parts.data<float>() + holder * parts.shape()[1]; };
  std::int64_t total = 0;
  for (std::int64_t h = 0; h < holders; ++h) total += static_cast<std::int64_t>(part(h)[0]);
  Tensor result = Tensor::empty({total, count});
  float* to = result.data<float>();
  for (std::int64_t row = 0; to < result.data<float>() + total * count; ++row) {
    for (std::int64_t h = 0; h < holders; ++h) {
      if (static_cast<std::int64_t>(part(h)[0]) > row) to = std::copy_n(part(h) + at + row * width + first, count, to);
    }
  }
  return result;
}

// This holder's rows of dw (O, I), from all holders' dz (N, O) and x (N, I).
void write_rows(BatchHolders& holders, const Tensor& dz, const Tensor& x, Tensor& dw, bool accumulate) {
  const std::int64_t inputs = x.shape()[1], outputs = dz.shape()[1];
  if (x.shape()[0] > holders.most_rows()) {
    throw std::logic_error("linear: a holder of the batch has " + std::to_string(x.shape()[0]) +
                           " rows, and may have " + std::to_string(holders.most_rows()));
  }
  const std::int64_t x_at = 1, dz_at = x_at + holders.most_rows() * inputs;
  Tensor mine = Tensor::empty({dz_at + holders.most_rows() * outputs});
  mine.data<float>()[0] = static_cast<float>(x.shape()[0]);
  std::copy_n(x.data<float>(), x.numel(), mine.data<float>() + x_at);
  std::copy_n(dz.data<float>(), dz.numel(), mine.data<float>() + dz_at);
  const Tensor all = holders.gather(mine);
  const std::int64_t first = outputs * holders.index() / all.shape()[0];
  const std::int64_t end = outputs * (holders.index() + 1) / all.shape()[0];
  if (!accumulate) {
    dw.narrow(0, 0, first).fill(0);
    dw.narrow(0, end, outputs - end).fill(0);
  }
  if (first == end) return;
  Tensor part = dw.narrow(0, first, end - first);
  const Tensor columns = in_order(all, dz_at, outputs, first, end - first);
  kernels({}).gemm(part, columns, true, in_order(all, x_at, inputs, 0, inputs), false, accumulate);
}

// y (N, O) = activation(x (N, I) w (O, I)^T + b (O)). With dz = dy where the activation let it pass:
// dw = dz^T x, db = column sums of dz, dx = dz w.
struct LinearNode final : Node {
  Tensor x;  // saved when w needs a gradient
  Tensor w;  // saved when x needs a gradient
  Tensor y;  // saved when the activation is relu: positive where the gradient passes
  std::shared_ptr<BatchHolders> holders;

  const char* name() const override { return "linear"; }
  void release() override { x = w = y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    if (y.defined()) grad = through_relu(std::move(grad), y);
    // Parameters first: whoever waits for them may start while dx is computed.
    if (holders) {
      inputs.write(1, [&](Tensor& dw, bool accumulate) { write_rows(*holders, grad, x, dw, accumulate); });
    } else {
      inputs.write_sum(1, [&](Tensor& dw, bool accumulate) { k.gemm(dw, grad, true, x, false, accumulate); });
    }
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

Variable linear(const Variable& x, const Variable& w, const Variable& b, Activation activation,
                std::shared_ptr<BatchHolders> holders) {
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
  node->holders = std::move(holders);
  return recorded(std::move(y), std::move(node), {&x, &w, &b});
}

}  // namespace tutti::tensor
