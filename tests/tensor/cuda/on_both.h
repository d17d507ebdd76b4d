// One kernel on the CPU and on the emulated GPU, compared.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tensor/ops.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "../support.h"

namespace tutti::tensor::test {

inline constexpr Device kGpu{Device::Kind::Cuda, 0};

/// Runs `body(kernels, results, inputs)` on the CPU and on the GPU, with results whose elements are `start` before, and
/// expects close results. `inputs` of any types lie on the CPU.
struct OnBoth {
  std::vector<Shape> results;
  std::vector<Tensor> inputs;
  DType dtype = DType::Float32;
  double start = std::numeric_limits<double>::quiet_NaN();
  double relative = 1e-5;
  double absolute = 1e-5;

  using Body = std::function<void(const KernelTable&, std::vector<Tensor>&, const std::vector<Tensor>&)>;
  void operator()(const Body& body) const {
    std::vector<Tensor> expected;
    std::vector<Tensor> got;
    std::vector<Tensor> there;
    for (const Shape& shape : results) {
      expected.push_back(Tensor::full(shape, start, dtype));
      got.push_back(Tensor::full(shape, start, dtype, kGpu));
    }
    for (const Tensor& input : inputs) there.push_back(input.to(kGpu));
    body(kernels({}), expected, inputs);
    body(kernels(kGpu), got, there);
    const double scale = dtype == DType::Float32 ? 1 : 1e-6;
    for (std::size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE("result " + std::to_string(i));
      expect_close(got[i].to(Device{}), expected[i], relative * scale, absolute * scale);
    }
  }
};

}  // namespace tutti::tensor::test
