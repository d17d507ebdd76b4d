// scale_channels and its gradients.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>

namespace tutti::tensor {
namespace {

// y = x s;  dx = dy s, ds = sums of dy x over a sample's pixels
struct ScaleChannelsNode final : Node {
  Tensor x;        // saved when the factors need a gradient
  Tensor factors;  // saved when x needs one

  const char* name() const override { return "scale_channels"; }
  void release() override { x = factors = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(1, [&](Tensor& ds, bool accumulate) { k.channel_products(ds, grad, x, accumulate); });
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.scale_channels(dx, grad, factors, accumulate); });
  }
};

}  // namespace

Variable scale_channels(const Variable& x, const Variable& factors) {
  check_same_type("scale_channels", x.data(), factors.data());
  check_rank("scale_channels (factors)", factors.data(), 2);
  const int rank = x.data().rank();
  if (rank < 2 || x.shape()[0] != factors.shape()[0] || x.shape()[rank - 1] != factors.shape()[1]) {
    refuse("scale_channels", x.data(), factors.data(), "do not fit: x is (N, ..., C), factors is (N, C)");
  }
  const Tensor images = x.data().contiguous();
  const Tensor s = factors.data().contiguous();
  Tensor y = Tensor::empty(images.shape(), images.dtype(), images.device());
  kernels(y.device()).scale_channels(y, images, s, false);
  if (!must_record({&x, &factors})) return Variable(std::move(y));
  auto node = std::make_shared<ScaleChannelsNode>();
  if (factors.requires_grad()) node->x = images;
  if (x.requires_grad()) node->factors = s;
  return recorded(std::move(y), std::move(node), {&x, &factors});
}

}  // namespace tutti::tensor
