// dropout, with a mask for each sample that depends on the sample's key only.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace tutti::tensor {
namespace {

struct DropoutNode final : Node {
  Tensor mask;
  double factor = 1;

  const char* name() const override { return "dropout"; }
  void release() override { mask = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    if (grad.use_count() == 1) {
      k.apply_mask(grad, grad, mask, factor, false);
      inputs.pass(0, grad);
      return;
    }
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.apply_mask(dx, grad, mask, factor, accumulate); });
  }
};

void check_dropout(const Tensor& x, double p, const Tensor& keys) {
  check_floating("dropout", x);
  if (!(p >= 0 && p <= 1)) {
    throw std::invalid_argument("dropout: the probability must be from 0 to 1, got " + std::to_string(p));
  }
  if (x.rank() == 0) throw std::invalid_argument("dropout: shape () has no samples");
  if (!keys.defined() || keys.dtype() != DType::Int64 || keys.rank() != 1 || keys.shape()[0] != x.shape()[0]) {
    refuse("dropout", x, keys, "do not fit: x is (N, ...), keys are int64 (N), one for each sample");
  }
  check_same_device("dropout", x, keys);
}

}  // namespace

Variable dropout(const Variable& x, double p, const Tensor& keys, std::uint64_t layer) {
  check_dropout(x.data(), p, keys);
  if (p == 0) return x;
  const Tensor input = x.data().contiguous();
  const std::int64_t samples = input.shape()[0];
  const std::int64_t length = samples > 0 ? input.numel() / samples : 0;
  const KernelTable& k = kernels(input.device());
  Tensor mask = Tensor::empty({samples, length}, DType::UInt8, input.device());
  k.dropout_mask(mask, keys.contiguous(), layer, p);
  const double factor = p < 1 ? 1 / (1 - p) : 0;
  Tensor y = Tensor::empty(input.shape(), input.dtype(), input.device());
  k.apply_mask(y, input, mask, factor, false);
  if (!must_record({&x})) return Variable(std::move(y));
  auto node = std::make_shared<DropoutNode>();
  node->mask = std::move(mask);
  node->factor = factor;
  return recorded(std::move(y), std::move(node), {&x});
}

}  // namespace tutti::tensor
