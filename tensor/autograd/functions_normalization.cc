// batch_norm. Over the matrix x (M, C), with s = 1 / sqrt(variance + epsilon), f = s weight and dz = dy where the
// activation let it pass:
//   dbias = sum dz,  dweight = s sum dz (x - mean),
//   dx = f dz - f / M sum dz - (x - mean) f s^2 / M sum dz (x - mean)
// in training; the two sums fall away for fixed statistics. Where several hold parts of the batch, M and the sums in dx
// are over all parts (joined_statistics.h). Exact sums are float64, and the second one has the factor s already.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/joined_statistics.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace tutti::tensor {
namespace {

Tensor empty_like(const Tensor& a) { return Tensor::empty(a.shape(), a.dtype(), a.device()); }

struct BatchNormNode final : Node {
  enum Input { kX, kWeight, kBias, kResidual };

  BatchNormPass pass;
  Tensor y;               // saved when relu saw a residual, which is not saved
  std::int64_t rows = 0;  // that the statistics were taken over; 0: none, they were fixed
  std::shared_ptr<BatchHolders> holders;

  bool exact() const { return rows > 0 && holders && holders->sums_exactly(); }

  const char* name() const override { return "batch_norm"; }
  void release() override {
    pass = {};
    y = {};
    holders = nullptr;
  }

  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    const Shape image = grad.shape();
    bool own = grad.use_count() == 1;  // then it may be written to
    grad = grad.reshape(pass.x.shape());
    Tensor sum_dz = exact() ? Tensor::empty(pass.mean.shape(), DType::Float64) : empty_like(pass.mean);
    Tensor sum_dzx = empty_like(sum_dz);
    Tensor dz;
    const bool write_dz = pass.relu && inputs.needed(kResidual);
    if (write_dz) dz = own ? grad : empty_like(grad);
    k.batch_norm_sums(sum_dz, sum_dzx, dz, pass, grad, y);
    if (write_dz) {
      own = true;
      grad = std::move(dz);
      pass.relu = false;  // dz holds what it let pass
    }
    if (exact()) {
      inputs.write_sum(kWeight, [&](Tensor& dw, bool add) { k.scale(dw, sum_dzx.to(dw.dtype()), 1, add); });
      inputs.write_sum(kBias, [&](Tensor& db, bool add) { k.scale(db, sum_dz.to(db.dtype()), 1, add); });
    } else {
      inputs.write(kWeight, [&](Tensor& dw, bool add) { k.mul(dw, sum_dzx, pass.inverse_deviation, add); });
      inputs.write(kBias, [&](Tensor& db, bool add) { k.scale(db, sum_dz, 1, add); });
    }
    deliver_input(grad, image, own && !inputs.needed(kResidual), sum_dz, sum_dzx, inputs);
    inputs.pass(kResidual, grad.reshape(image));
  }

  // The sums become the coefficients of dx.
  void deliver_input(Tensor& grad, const Shape& image, bool in_place, Tensor& sum_dz, Tensor& sum_dzx,
                     InputGradients& inputs) {
    if (!inputs.needed(kX)) return;
    const KernelTable& k = kernels(grad.device());
    if (rows > 0 && holders) join_sums(*holders, sum_dz, sum_dzx);
    Tensor offset = empty_like(pass.mean);
    Tensor slope = empty_like(pass.mean);
    k.batch_norm_coefficients(offset, slope, pass, sum_dz.to(offset.dtype()), sum_dzx.to(slope.dtype()),
                              rows > 0 ? 1.0 / static_cast<double>(rows) : 0.0, exact());
    if (in_place) {
      k.batch_norm_input(grad, pass, grad, y, slope, offset, false);
      inputs.pass(kX, grad.reshape(image));
      return;
    }
    inputs.write(kX, [&](Tensor& dx, bool add) {
      Tensor matrix = dx.reshape(pass.x.shape());
      k.batch_norm_input(matrix, pass, grad, y, slope, offset, add);
    });
  }
};

void check_channels(const char* what, const Tensor& x, const Tensor& channels) {
  if (!channels.defined()) {
    throw std::invalid_argument("batch_norm: " + std::string(what) + " is undefined; x is " + describe(x));
  }
  check_same_type("batch_norm", x, channels);
  if (channels.rank() != 1 || channels.shape()[0] != x.shape()[-1]) {
    throw std::invalid_argument("batch_norm: " + std::string(what) + " is " + describe(channels) + ", but x is " +
                                describe(x) + ": one number for each of the " + std::to_string(x.shape()[-1]) +
                                " channels is needed");
  }
}

void check_batch_norm(const Tensor& x, const Variable& weight, const Variable& bias, const Tensor& running_mean,
                      const Tensor& running_variance, const Variable& residual) {
  check_floating("batch_norm", x);
  if (x.rank() == 0) throw std::invalid_argument("batch_norm: shape () has no channels");
  check_channels("the weight", x, weight.defined() ? weight.data() : Tensor{});
  check_channels("the bias", x, bias.defined() ? bias.data() : Tensor{});
  check_channels("the running mean", x, running_mean);
  check_channels("the running variance", x, running_variance);
  if (!running_mean.is_contiguous() || !running_variance.is_contiguous()) {
    throw std::invalid_argument("batch_norm: the running statistics must be contiguous");
  }
  if (residual.defined()) check_same("batch_norm (residual)", x, residual.data());
}

// Mean and variance of x for training, over all holders if there are any. Returns how many rows they are over.
std::int64_t take_statistics(BatchNormPass& pass, Tensor& variance, const Tensor& centre, const Tensor& image,
                             const BatchNormOptions& options) {
  const KernelTable& k = kernels(image.device());
  const Tensor& x = pass.x;
  std::int64_t rows = x.shape()[0];
  if (options.holders && options.holders->sums_exactly()) {
    if (k.batch_norm_moments == nullptr) throw std::invalid_argument("batch_norm: exact sums are the CPU's only");
    pass.image_rows = rows > 0 ? rows / image.shape()[0] : 0;
    Tensor sums = Tensor::empty({4, x.shape()[1]}, DType::Float64);
    k.batch_norm_moments(sums, x, centre, pass.image_rows);
    rows = join_moments(*options.holders, rows, sums, centre, pass.mean, variance);
  } else {
    if (rows > 0) k.batch_norm_statistics(pass.mean, variance, x);
    if (options.holders) rows = join_statistics(*options.holders, rows, pass.mean, variance);
  }
  if (rows == 1 && x.shape()[1] > 0) {
    throw std::invalid_argument("batch_norm: " + describe(image) + " has one value for each channel, which has no " +
                                "variance to train with; use a larger batch or evaluation mode");
  }
  return rows;
}

}  // namespace

Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias, Tensor running_mean,
                    Tensor running_variance, const BatchNormOptions& options, const Variable& residual) {
  check_batch_norm(x.data(), weight, bias, running_mean, running_variance, residual);
  const KernelTable& k = kernels(x.data().device());
  BatchNormPass pass;
  const std::int64_t channels = x.shape()[-1];
  const std::int64_t rows = channels > 0 ? x.data().numel() / channels : 0;
  pass.x = x.data().reshape({rows, channels});
  pass.relu = options.activation == Activation::Relu;
  Tensor variance = empty_like(running_mean);
  pass.mean = empty_like(running_mean);
  const std::int64_t counted = options.training ? take_statistics(pass, variance, running_mean, x.data(), options) : 0;
  RunningStatistics running;
  if (counted > 0) {
    running = {.mean = running_mean, .variance = running_variance, .momentum = options.momentum};
    running.unbiased = static_cast<double>(counted) / static_cast<double>(counted - 1);
  } else {
    variance = running_variance;
    pass.mean = running_mean.clone();  // they may change before backward
  }
  pass.inverse_deviation = empty_like(variance);
  pass.factor = empty_like(variance);
  k.batch_norm_channels(pass, variance, weight.data().contiguous(), options.epsilon, running);
  pass.bias = bias.data().contiguous();

  Tensor y = Tensor::empty(pass.x.shape(), pass.x.dtype(), pass.x.device());
  k.batch_norm(y, pass, residual.defined() ? residual.data().reshape(pass.x.shape()) : Tensor{});
  Tensor image = y.reshape(x.shape());
  if (!must_record({&x, &weight, &bias, &residual})) return Variable(std::move(image));
  auto node = std::make_shared<BatchNormNode>();
  if (pass.relu && residual.defined()) node->y = y;
  node->pass = std::move(pass);
  node->rows = counted;
  node->holders = options.holders;
  return recorded(std::move(image), std::move(node), {&x, &weight, &bias, &residual});
}

}  // namespace tutti::tensor
