#include "support.h"

#include <gtest/gtest.h>
#include <tutti/tensor/random.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tutti::tensor::test {
namespace {

// A fixed weight per element: a plain sum would not notice a transposed gradient.
Variable weighted_sum(const Variable& y) { return sum(mul(y, Variable(beside(y, random_tensor(y.shape(), 977))))); }

std::vector<Variable> as_leaves(const std::vector<Tensor>& inputs, DType dtype, Device device) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input.to(dtype).clone().to(device), true);
  return leaves;
}

double evaluate(const Function& f, const std::vector<Variable>& leaves) {
  const NoGrad no_grad;
  return weighted_sum(f(leaves)).data().item();
}

// d (weighted sum of f) / d (leaf), by central differences. The leaf lies on the CPU.
Tensor numeric_gradient(const Function& f, const std::vector<Variable>& leaves, Variable leaf) {
  constexpr double kStep = 1e-6;
  Tensor numeric = Tensor::empty(leaf.shape(), DType::Float64);
  double* data = leaf.data().data<double>();
  for (std::int64_t i = 0; i < numeric.numel(); ++i) {
    const double original = data[i];
    data[i] = original + kStep;
    const double above = evaluate(f, leaves);
    data[i] = original - kStep;
    const double below = evaluate(f, leaves);
    data[i] = original;
    numeric.data<double>()[i] = (above - below) / (2 * kStep);
  }
  return numeric;
}

}  // namespace

Device& test_device() {
  static Device device;
  return device;
}

Tensor placed(const Tensor& tensor) { return tensor.to(test_device()); }

Tensor beside(const Variable& input, const Tensor& constant) {
  const bool floating = constant.dtype() == DType::Float32 || constant.dtype() == DType::Float64;
  return (floating ? constant.to(input.data().dtype()) : constant).to(input.data().device());
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed, DType dtype, double gap) {
  Tensor tensor = Tensor::empty(shape, DType::Float64);
  Mt19937 generator(seed);
  double* out = tensor.data<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double value = generator.uniform(-1, 1);
    out[i] = value + (value < 0 ? -gap : gap);
  }
  return tensor.to(dtype);
}

std::vector<double> values(const Tensor& tensor) {
  Tensor packed = tensor.to(Device{}).to(DType::Float64).contiguous();
  return {packed.data<double>(), packed.data<double>() + packed.numel()};
}

void expect_close(const Tensor& actual, const Tensor& expected, double relative, double absolute) {
  ASSERT_EQ(actual.shape(), expected.shape()) << actual.shape().to_string() << " " << expected.shape().to_string();
  const std::vector<double> a = values(actual);
  const std::vector<double> e = values(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool close = std::abs(a[i] - e[i]) <= absolute + relative * std::abs(e[i]);
    ASSERT_TRUE(close) << "element " << i << " of " << actual.shape().to_string() << ": " << a[i] << ", expected "
                       << e[i];
  }
}

void gradcheck(const Function& f, const std::vector<Tensor>& inputs) {
  const std::vector<Variable> points = as_leaves(inputs, DType::Float64, {});
  std::vector<Variable> leaves = as_leaves(inputs, DType::Float64, test_device());
  const Variable result = f(leaves);
  if (test_device() != Device{}) {
    SCOPED_TRACE("result against the CPU's");
    const NoGrad off;
    expect_close(result.data(), f(points).data(), 1e-10, 1e-10);
  }
  weighted_sum(result).backward();
  for (std::size_t input = 0; input < leaves.size(); ++input) {
    SCOPED_TRACE("gradient of input " + std::to_string(input));
    ASSERT_TRUE(leaves[input].has_grad());
    expect_close(leaves[input].grad(), numeric_gradient(f, points, points[input]), 1e-6, 1e-7);
  }

  SCOPED_TRACE("float32 against float64");
  std::vector<Variable> singles = as_leaves(inputs, DType::Float32, test_device());
  const Variable y = f(singles);
  expect_close(y.data(), f(leaves).data(), 1e-4, 1e-4);
  weighted_sum(y).backward();
  for (std::size_t i = 0; i < leaves.size(); ++i) expect_close(singles[i].grad(), leaves[i].grad(), 1e-4, 1e-4);
}

std::map<std::string, Tensor> read_golden(const std::string& file) {
  const std::string path = std::string(TUTTI_GOLDEN_DIR) + "/" + file;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot open golden file " + path);
  std::map<std::string, Tensor> tensors;
  std::string line;
  while (std::getline(in, line)) {
    // name rank extents... values... (hexadecimal floats, so that nothing is rounded on the way)
    std::istringstream words(line);
    std::string name;
    std::size_t rank = 0;
    words >> name >> rank;
    std::vector<std::int64_t> extents(rank);
    for (std::int64_t& extent : extents) words >> extent;
    const Shape shape{std::span<const std::int64_t>(extents)};
    std::vector<double> numbers;
    std::string word;
    while (words >> word) numbers.push_back(std::strtod(word.c_str(), nullptr));
    tensors[name] = placed(Tensor::from(shape, numbers));
  }
  return tensors;
}

}  // namespace tutti::tensor::test
