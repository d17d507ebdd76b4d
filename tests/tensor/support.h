// What the tensor tests share: random tensors, comparisons, gradcheck, golden files.
#pragma once

#include <tutti/tensor/autograd/functions.h>

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tutti::tensor::test {

/// The device that the operation suite runs on: the CPU, or the GPU in the programs with cuda/agreement_test.cc.
Device& test_device();
/// The tensor on that device.
Tensor placed(const Tensor& tensor);
/// A constant for an operation on `input`: on its device and, if it is of a floating type, of its type.
Tensor beside(const Variable& input, const Tensor& constant);

/// Values uniform in [-1, 1) from a seed, each at least `gap` away from zero (relu is not differentiable there).
Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype = DType::Float64, double gap = 0);

std::vector<double> values(const Tensor& tensor);

/// Every element within absolute + relative * |expected|. Reports the first element that is not.
void expect_close(const Tensor& actual, const Tensor& expected, double relative, double absolute);

/// The text of the `Expected` that `action` throws.
template <typename Expected = std::invalid_argument, typename Action>
std::string text_of(const Action& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing was thrown";
}

using Function = std::function<Variable(const std::vector<Variable>&)>;

/// Compares the gradients of a weighted sum of f's result with central differences, for every input, in float64; then
/// the float32 result and gradients with the float64 ones. The differences are taken on the CPU, whose results must be
/// the test device's; its gradients are what is checked. f is called with variables on either, so its constants come
/// from beside().
void gradcheck(const Function& f, const std::vector<Tensor>& inputs);

/// Calls visit(y index, x index, w index) for every product that a convolution of x (N, H, W, C) by w (O, C / groups,
/// KH, KW) sums up.
template <typename Window, typename Visit>
void for_each_product(const Shape& x, const Shape& w, const Shape& y, const Window& window, Visit visit) {
  const std::int64_t outputs = w[0] / window.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t oh = 0; oh < y[1]; ++oh)
      for (std::int64_t ow = 0; ow < y[2]; ++ow)
        for (std::int64_t out = 0; out < y[3]; ++out)
          for (std::int64_t in = 0; in < w[1]; ++in)
            for (std::int64_t kh = 0; kh < w[2]; ++kh)
              for (std::int64_t kw = 0; kw < w[3]; ++kw) {
                const std::int64_t ih = oh * window.stride.height - window.padding.height + kh * window.dilation.height;
                const std::int64_t iw = ow * window.stride.width - window.padding.width + kw * window.dilation.width;
                if (ih < 0 || ih >= x[1] || iw < 0 || iw >= x[2]) continue;
                const std::int64_t channel = out / outputs * w[1] + in;
                visit(((n * y[1] + oh) * y[2] + ow) * y[3] + out, ((n * x[1] + ih) * x[2] + iw) * x[3] + channel,
                      ((out * w[1] + in) * w[2] + kh) * w[3] + kw);
              }
}

/// Tensors on the test device by name from tests/tensor/golden/<file>. Written by make_goldens.py.
std::map<std::string, Tensor> read_golden(const std::string& file);

}  // namespace tutti::tensor::test
