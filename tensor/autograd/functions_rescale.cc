// scale_rows (stochastic depth) and mul_channels (squeeze and excitation).
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <stdexcept>

namespace tutti::tensor {
namespace {

struct ScaleRowsNode final : Node {
  Tensor factors;
  Shape rows;  // (N, rest)

  const char* name() const override { return "scale_rows"; }
  void release() override { factors = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    const Tensor from = grad.reshape(rows);
    inputs.write(0, [&](Tensor& dx, bool accumulate) {
      Tensor to = dx.reshape(rows);
      k.scale_rows(to, from, factors, accumulate);
    });
  }
};

// x as (N, pixels, C)
struct MulChannelsNode final : Node {
  Tensor x;  // saved when s needs a gradient
  Tensor s;  // and the other way round
  Shape slabs;

  const char* name() const override { return "mul_channels"; }
  void release() override { x = s = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    const Tensor from = grad.reshape(slabs);
    inputs.write(1, [&](Tensor& ds, bool accumulate) { k.channel_dots(ds, from, x, accumulate); });
    inputs.write(0, [&](Tensor& dx, bool accumulate) {
      Tensor to = dx.reshape(slabs);
      k.mul_channels(to, from, s, accumulate);
    });
  }
};

}  // namespace

Variable scale_rows(const Variable& x, const Tensor& factors) {
  check_same_type("scale_rows", x.data(), factors);
  if (x.data().rank() == 0 || factors.rank() != 1 || factors.shape()[0] != x.shape()[0]) {
    refuse("scale_rows", x.data(), factors, "do not fit: x is (N, ...), factors are (N)");
  }
  const std::int64_t samples = x.shape()[0];
  const Shape rows{samples, samples > 0 ? x.data().numel() / samples : 0};
  Tensor y = Tensor::empty(rows, x.data().dtype(), x.data().device());
  const Tensor packed = factors.contiguous();
  kernels(y.device()).scale_rows(y, x.data().reshape(rows), packed, false);
  Tensor shaped = y.reshape(x.shape());
  if (!must_record({&x})) return Variable(std::move(shaped));
  auto node = std::make_shared<ScaleRowsNode>();
  node->factors = packed;
  node->rows = rows;
  return recorded(std::move(shaped), std::move(node), {&x});
}

Variable mul_channels(const Variable& x, const Variable& s) {
  check_rank("mul_channels (x)", x.data(), 4);
  check_rank("mul_channels (s)", s.data(), 2);
  check_same_type("mul_channels", x.data(), s.data());
  const Shape& image = x.shape();
  if (s.shape() != Shape{image[0], image[3]}) {
    refuse("mul_channels", x.data(), s.data(), "do not fit: x is (N, H, W, C), s is (N, C)");
  }
  const Shape slabs{image[0], image[1] * image[2], image[3]};
  const Tensor input = x.data().reshape(slabs);
  const Tensor factors = s.data().contiguous();
  Tensor y = Tensor::empty(slabs, input.dtype(), input.device());
  kernels(y.device()).mul_channels(y, input, factors, false);
  Tensor shaped = y.reshape(image);
  if (!must_record({&x, &s})) return Variable(std::move(shaped));
  auto node = std::make_shared<MulChannelsNode>();
  if (s.requires_grad()) node->x = input;
  if (x.requires_grad()) node->s = factors;
  node->slabs = slabs;
  return recorded(std::move(shaped), std::move(node), {&x, &s});
}

}  // namespace tutti::tensor
