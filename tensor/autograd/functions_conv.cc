// conv2d and its gradients.
#include <tutti/tensor/autograd/checks.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

// y = activation(conv(x, w) + b). With dz = dy where the activation let it pass: db = sums of dz over all pixels,
// dw and dx as in ops.h.
struct Conv2dNode final : Node {
  ConvWindow window;
  Tensor x;  // saved when w needs a gradient
  Tensor w;  // saved when x needs a gradient
  Tensor y;  // saved when the activation is relu: positive where the gradient passes

  const char* name() const override { return "conv2d"; }
  void release() override { x = w = y = {}; }
  void backward(Tensor grad, InputGradients& inputs) override {
    const KernelTable& k = kernels(grad.device());
    if (y.defined()) grad = through_relu(std::move(grad), y);
    inputs.write_sum(1,
                     [&](Tensor& dw, bool accumulate) { k.conv2d_weight_gradient(dw, grad, x, window, accumulate); });
    inputs.write_sum(2, [&](Tensor& db, bool accumulate) {
      const std::int64_t outputs = grad.shape()[3];
      k.column_sum(db, grad.reshape({grad.numel() / outputs, outputs}), accumulate);
    });
    inputs.write(0, [&](Tensor& dx, bool accumulate) { k.conv2d_input_gradient(dx, grad, w, window, accumulate); });
  }
};

std::string to_string(Pair pair) { return std::to_string(pair.height) + " x " + std::to_string(pair.width); }

void check_at_least(const char* option, Pair found, std::int64_t least) {
  if (found.height >= least && found.width >= least) return;
  throw std::invalid_argument(std::string("conv2d: ") + option + " is " + to_string(found) + ", must be at least " +
                              std::to_string(least));
}

void check_operands(const Tensor& x, const Tensor& w, const Variable& b, std::int64_t groups) {
  check_rank("conv2d (x)", x, 4);
  check_rank("conv2d (w)", w, 4);
  check_same_type("conv2d", x, w);
  if (groups < 1 || x.shape()[3] % groups != 0 || w.shape()[0] % groups != 0 || w.shape()[1] * groups != x.shape()[3]) {
    refuse("conv2d", x, w,
           ("do not fit with groups = " + std::to_string(groups) +
            ": x is (N, H, W, C), w is (O, C / groups, KH, KW), and both C and O are multiples of it")
               .c_str());
  }
  if (w.numel() == 0) refuse("conv2d", x, w, "do not fit: w has no elements");
  if (!b.defined()) return;
  check_same_type("conv2d", w, b.data());
  if (b.data().rank() != 1 || b.data().shape()[0] != w.shape()[0]) {
    refuse("conv2d", w, b.data(), "do not fit: w is (O, C / groups, KH, KW), b is (O)");
  }
}

std::int64_t output_extent(std::int64_t input, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                           std::int64_t dilation) {
  const std::int64_t room = input + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Shape output_shape(const Tensor& x, const Tensor& w, const ConvWindow& window) {
  const Shape& in = x.shape();
  const Shape& kernel = w.shape();
  const std::int64_t height =
      output_extent(in[1], kernel[2], window.stride.height, window.padding.height, window.dilation.height);
  const std::int64_t width =
      output_extent(in[2], kernel[3], window.stride.width, window.padding.width, window.dilation.width);
  if (height == 0 || width == 0) {
    refuse("conv2d", x, w,
           ("do not fit: with padding " + to_string(window.padding) + " and dilation " + to_string(window.dilation) +
            " the kernel is larger than the image")
               .c_str());
  }
  return {in[0], height, width, kernel[0]};
}

}  // namespace

Variable conv2d(const Variable& input, const Variable& weight, const Variable& bias, const Conv2dOptions& options) {
  check_operands(input.data(), weight.data(), bias, options.groups);
  check_at_least("stride", options.stride, 1);
  check_at_least("padding", options.padding, 0);
  check_at_least("dilation", options.dilation, 1);
  const ConvWindow window{options.stride, options.padding, options.dilation, options.groups};
  const Tensor x = input.data().contiguous();
  const Tensor w = weight.data().contiguous();
  const Tensor b = bias.defined() ? bias.data().contiguous() : Tensor();
  Tensor y = Tensor::empty(output_shape(x, w, window), x.dtype(), x.device());
  const bool relu = options.activation == Activation::Relu;
  kernels(x.device()).conv2d(y, x, w, b, window, relu);
  if (!must_record({&input, &weight, &bias})) return Variable(std::move(y));
  auto node = std::make_shared<Conv2dNode>();
  node->window = window;
  if (weight.requires_grad()) node->x = x;
  if (input.requires_grad()) node->w = w;
  if (relu) node->y = y;
  return recorded(std::move(y), std::move(node), {&input, &weight, &bias});
}

}  // namespace tutti::tensor
