// log_softmax, cross_entropy, mse_loss.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace tutti::tensor {
namespace {

struct LogSoftmaxNode final : Node {
  Tensor y;

  const char* name() const override { return "log_softmax"; }
  void release() override { y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.log_softmax_backward(dx, grad, y, accumulate); });
  }
};

struct CrossEntropyNode final : Node {
  Tensor probabilities;
  Tensor targets;
  double factor = 1;

  const char* name() const override { return "cross_entropy"; }
  void release() override { probabilities = targets = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dlogits, bool accumulate) {
      k.cross_entropy_backward(dlogits, probabilities, targets, grad, factor, accumulate);
    });
  }
};

struct MseNode final : Node {
  Tensor prediction;
  Tensor target;
  double factor = 1;

  const char* name() const override { return "mse_loss"; }
  void release() override { prediction = target = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dp, bool accumulate) {
      k.squared_error_backward(dp, prediction, target, grad, factor, accumulate);
    });
  }
};

double reduction_factor(Reduction reduction, std::int64_t count) {
  return reduction == Reduction::Mean ? 1.0 / static_cast<double>(count) : 1.0;
}

void check_cross_entropy(const Tensor& logits, const Tensor& targets) {
  check_rank("cross_entropy", logits, 2);
  check_floating("cross_entropy", logits);
  if (!targets.defined() || targets.dtype() != DType::Int64 || targets.rank() != 1 ||
      targets.shape()[0] != logits.shape()[0]) {
    refuse("cross_entropy", logits, targets, "do not fit: logits are (N, C), targets int64 (N)");
  }
}

}  // namespace

Variable log_softmax(const Variable& logits) {
  check_rank("log_softmax", logits.data(), 2);
  check_floating("log_softmax", logits.data());
  const Tensor x = logits.data().contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels(x.device()).log_softmax(y, x);
  if (!must_record({&logits})) return Variable(std::move(y));
  auto node = std::make_shared<LogSoftmaxNode>();
  node->y = y;
  return recorded(std::move(y), std::move(node), {&logits});
}

Variable cross_entropy(const Variable& logits, const Tensor& targets, Reduction reduction) {
  check_cross_entropy(logits.data(), targets);
  const Tensor x = logits.data().contiguous();
  const Tensor labels = targets.contiguous();
  const double factor = reduction_factor(reduction, x.shape()[0]);
  Tensor loss = Tensor::empty({}, x.dtype(), x.device());
  Tensor probabilities = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels(x.device()).cross_entropy(loss, probabilities, x, labels, factor);
  if (!must_record({&logits})) return Variable(std::move(loss));
  auto node = std::make_shared<CrossEntropyNode>();
  node->probabilities = std::move(probabilities);
  node->targets = labels;
  node->factor = factor;
  return recorded(std::move(loss), std::move(node), {&logits});
}

Variable mse_loss(const Variable& prediction, const Tensor& target, Reduction reduction) {
  check_same("mse_loss", prediction.data(), target);
  const Tensor p = prediction.data().contiguous();
  const Tensor t = target.contiguous();
  const double factor = reduction_factor(reduction, p.numel());
  Tensor loss = Tensor::empty({}, p.dtype(), p.device());
  kernels(p.device()).squared_error(loss, p, t, factor);
  if (!must_record({&prediction})) return Variable(std::move(loss));
  auto node = std::make_shared<MseNode>();
  node->prediction = p;
  node->target = t;
  node->factor = factor;
  return recorded(std::move(loss), std::move(node), {&prediction});
}

}  // namespace tutti::tensor
