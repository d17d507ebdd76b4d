// What the tensor tests share: random tensors, comparisons, gradcheck, golden files.
#pragma once

#include <tutti/tensor/autograd/functions.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tutti::tensor::test {

/// Values uniform in [-1, 1) from a seed, each at least `gap` away from zero (relu is not differentiable there).
Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype = DType::Float64, double gap = 0);

std::vector<double> values(const Tensor& tensor);

/// Every element within absolute + relative * |expected|. Reports the first element that is not.
void expect_close(const Tensor& actual, const Tensor& expected, double relative, double absolute);

using Function = std::function<Variable(const std::vector<Variable>&)>;

/// Compares the gradients of a weighted sum of f's result with central differences, for every input, in float64; then
/// the float32 result and gradients with the float64 ones.
void gradcheck(const Function& f, const std::vector<Tensor>& inputs);

/// Tensors by name from tests/tensor/golden/<file>. Written by make_goldens.py.
std::map<std::string, Tensor> read_golden(const std::string& file);

}  // namespace tutti::tensor::test
