// softmax, log_softmax, cross_entropy, nll_loss, mse_loss.
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

struct SoftmaxNode final : Node {
  Tensor y;  // (M, C)

  const char* name() const override { return "softmax"; }
  void release() override { y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dx, bool accumulate) {
      Tensor rows = dx.reshape(y.shape());
      k.softmax_backward(rows, grad.reshape(y.shape()), y, accumulate);
    });
  }
};

struct NllNode final : Node {
  Tensor targets;
  double factor = 1;

  const char* name() const override { return "nll_loss"; }
  void release() override { targets = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.nll_loss_backward(dx, targets, grad, factor, accumulate); });
  }
};

struct CrossEntropyNode final : Node {
  Tensor probabilities;
  Tensor targets;
  double factor = 1;
  double smoothing = 0;

  const char* name() const override { return "cross_entropy"; }
  void release() override { probabilities = targets = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    inputs.write(0, [&](Tensor& dlogits, bool accumulate) {
      k.cross_entropy_backward(dlogits, probabilities, targets, grad, factor, smoothing, accumulate);
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

Tensor empty_loss(Reduction reduction, const Tensor& of) {
  const bool wide = reduction == Reduction::WideSum && of.device().kind == Device::Kind::Cpu;
  return Tensor::empty({}, wide ? DType::Float64 : of.dtype(), of.device());
}

void check_classes(const char* operation, const Tensor& logits, const Tensor& targets) {
  check_rank(operation, logits, 2);
  check_floating(operation, logits);
  if (!targets.defined() || targets.dtype() != DType::Int64 || targets.rank() != 1 ||
      targets.shape()[0] != logits.shape()[0]) {
    refuse(operation, logits, targets, "do not fit: logits are (N, C), targets int64 (N)");
  }
  check_same_device(operation, logits, targets);
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

Variable softmax(const Variable& logits) {
  check_floating("softmax", logits.data());
  if (logits.data().rank() == 0) throw std::invalid_argument("softmax: shape () has no axis to go over");
  const std::int64_t columns = logits.shape()[-1];
  const Tensor x = logits.data().reshape({columns > 0 ? logits.data().numel() / columns : 0, columns});
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels(x.device()).softmax(y, x);
  Tensor shaped = y.reshape(logits.shape());
  if (!must_record({&logits})) return Variable(std::move(shaped));
  auto node = std::make_shared<SoftmaxNode>();
  node->y = std::move(y);
  return recorded(std::move(shaped), std::move(node), {&logits});
}

Variable nll_loss(const Variable& log_probabilities, const Tensor& targets, Reduction reduction) {
  check_classes("nll_loss", log_probabilities.data(), targets);
  const Tensor x = log_probabilities.data().contiguous();
  const Tensor labels = targets.contiguous();
  const double factor = reduction_factor(reduction, x.shape()[0]);
  Tensor loss = empty_loss(reduction, x);
  kernels(x.device()).nll_loss(loss, x, labels, factor);
  if (!must_record({&log_probabilities})) return Variable(std::move(loss));
  auto node = std::make_shared<NllNode>();
  node->targets = labels;
  node->factor = factor;
  return recorded(std::move(loss), std::move(node), {&log_probabilities});
}

Variable cross_entropy(const Variable& logits, const Tensor& targets, Reduction reduction, double label_smoothing) {
  check_classes("cross_entropy", logits.data(), targets);
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    throw std::invalid_argument("cross_entropy: label_smoothing must be from 0 to 1, got " +
                                std::to_string(label_smoothing));
  }
  const Tensor x = logits.data().contiguous();
  const Tensor labels = targets.contiguous();
  const double factor = reduction_factor(reduction, x.shape()[0]);
  Tensor loss = empty_loss(reduction, x);
  Tensor probabilities = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernels(x.device()).cross_entropy(loss, probabilities, x, labels, factor, label_smoothing);
  if (!must_record({&logits})) return Variable(std::move(loss));
  auto node = std::make_shared<CrossEntropyNode>();
  node->probabilities = std::move(probabilities);
  node->targets = labels;
  node->factor = factor;
  node->smoothing = label_smoothing;
  return recorded(std::move(loss), std::move(node), {&logits});
}

Variable mse_loss(const Variable& prediction, const Tensor& target, Reduction reduction) {
  check_same("mse_loss", prediction.data(), target);
  const Tensor p = prediction.data().contiguous();
  const Tensor t = target.contiguous();
  const double factor = reduction_factor(reduction, p.numel());
  Tensor loss = empty_loss(reduction, p);
  kernels(p.device()).squared_error(loss, p, t, factor);
  if (!must_record({&prediction})) return Variable(std::move(loss));
  auto node = std::make_shared<MseNode>();
  node->prediction = p;
  node->target = t;
  node->factor = factor;
  return recorded(std::move(loss), std::move(node), {&prediction});
}

}  // namespace tutti::tensor
