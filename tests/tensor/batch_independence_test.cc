// What an operation computes for a sample, and the gradient that it returns for it, has the same bits whatever else is
// in the batch: training on several ranks rests on it.

#include <gtest/gtest.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tests/tensor/support.h>

#include <cstring>
#include <functional>
#include <ostream>
#include <vector>

namespace tutti::tensor {
namespace {

struct Operation {
  const char* name;
  Shape sample;
  /// x (N, sample...), the samples' targets (N) -> anything that begins with N, or a loss summed over samples.
  std::function<Variable(const Variable& x, const Tensor& targets)> run;
};
void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

Tensor some(const Shape& shape, std::uint64_t seed) { return test::random_tensor(shape, seed, DType::Float32); }
Variable weights(const Shape& shape) { return Variable(some(shape, 77)); }

std::vector<Operation> operations() {
  const auto per_element = [](Variable (*f)(const Variable&)) {
    return [f](const Variable& x, const Tensor&) { return f(x); };
  };
  const auto convolved = [](Shape kernel, std::int64_t outputs, Conv2dOptions options) {
    return [=](const Variable& x, const Tensor&) { return conv2d(x, weights(kernel), weights({outputs}), options); };
  };
  const auto times = [](Shape w, Variable bias, Activation activation) {
    return [=](const Variable& x, const Tensor&) { return linear(x, weights(w), bias, activation); };
  };
  return {
      {"long_linear", {784}, times({50, 784}, weights({50}), Activation::None)},
      {"longer_linear", {1500}, times({130, 1500}, {}, Activation::Relu)},
      {"short_linear", {30}, times({70, 30}, weights({70}), Activation::None)},
      {"matmul", {40}, [w = weights({40, 33})](auto& x, auto&) { return matmul(x, w); }},
      {"first_conv", {14, 14, 1}, convolved({32, 1, 3, 3}, 32, {})},
      {"conv", {9, 9, 20}, convolved({24, 20, 3, 3}, 24, {.activation = Activation::Relu})},
      {"wide_conv", {12, 12, 64}, convolved({64, 64, 3, 3}, 64, {.padding = 1})},
      {"strided_conv", {9, 9, 16}, convolved({40, 16, 3, 3}, 40, {.stride = 2, .padding = 1})},
      {"grouped_conv", {9, 9, 36}, convolved({72, 18, 3, 3}, 72, {.padding = 1, .groups = 2})},
      {"depthwise_conv", {9, 9, 16}, convolved({16, 1, 3, 3}, 16, {.padding = 1, .groups = 16})},
      {"max_pool", {9, 9, 5}, [](auto& x, auto&) { return max_pool2d(x, {.kernel = 3, .stride = 2}); }},
      {"avg_pool", {9, 9, 5}, [](auto& x, auto&) { return avg_pool2d(x, {.kernel = 2}); }},
      {"adaptive_pool", {9, 9, 5}, [](auto& x, auto&) { return adaptive_avg_pool2d(x, 2); }},
      {"relu6", {37}, per_element(relu6)},
      {"silu", {37}, per_element(silu)},
      {"sigmoid", {37}, per_element(sigmoid)},
      {"tanh", {37}, per_element(tensor::tanh)},
      {"softmax", {10}, per_element(softmax)},
      {"log_softmax", {10}, per_element(log_softmax)},
      {"cross_entropy", {10}, [](auto& x, auto& t) { return cross_entropy(x, t, Reduction::WideSum, 0.1); }},
      {"mse", {13}, [](auto& x, auto&) { return mse_loss(x, Tensor::zeros(x.shape()), Reduction::WideSum); }},
  };
}

struct Results {
  Tensor y;
  Tensor dx;
};

/// Samples begin to end of a batch of twelve.
Results of_samples(const Operation& operation, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> extents{12};
  for (const std::int64_t extent : operation.sample.extents()) extents.push_back(extent);
  const Tensor all = some(Shape(extents), 5);
  Tensor targets = Tensor::empty({end - begin}, DType::Int64);
  for (std::int64_t i = begin; i < end; ++i) targets.data<std::int64_t>()[i - begin] = i % 10;
  Variable x(all.narrow(0, begin, end - begin).clone(), true);
  const Variable y = operation.run(x, targets);
  // A seed that differs from sample to sample, and is its own; a loss has one for all.
  Tensor seed = Tensor::full(y.shape(), 1.0 / 12, y.data().dtype());
  if (y.data().rank() > 0) {
    std::vector<std::int64_t> of_all(y.shape().extents().begin(), y.shape().extents().end());
    of_all[0] = 12;
    seed = some(Shape(of_all), 6).narrow(0, begin, end - begin).clone();
  }
  Variable(y).backward(seed);
  return {y.data().clone(), x.grad().clone()};
}

bool is_part_of(const Tensor& part, const Tensor& whole, std::int64_t begin) {
  const std::size_t row = whole.nbytes() / static_cast<std::size_t>(whole.shape()[0]);
  const auto* const at = static_cast<const std::byte*>(whole.raw()) + static_cast<std::size_t>(begin) * row;
  return std::memcmp(part.raw(), at, part.nbytes()) == 0;
}

class BatchIndependence : public testing::TestWithParam<Operation> {};

TEST_P(BatchIndependence, ASamplesResultsAreItsOwn) {
  const Results whole = of_samples(GetParam(), 0, 12);
  for (const std::int64_t size : {1, 2, 3, 4, 5, 6}) {
    for (std::int64_t begin = 0; begin + size <= 12; begin += size) {
      const Results part = of_samples(GetParam(), begin, begin + size);
      EXPECT_TRUE(is_part_of(part.dx, whole.dx, begin)) << "gradient of " << size << " samples from " << begin;
      if (part.y.rank() == 0) continue;
      EXPECT_TRUE(is_part_of(part.y, whole.y, begin)) << "result of " << size << " samples from " << begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, BatchIndependence, testing::ValuesIn(operations()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tutti::tensor
