// The CPU's kernels: neither the number of threads nor the rest of the batch changes a bit.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/thread_pool.h>

#include <cstring>
#include <functional>
#include <vector>

#include "support.h"

namespace tutti::tensor::test {
namespace {

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(1); }
};

// Everything that one recorded operation produces: the result and the gradients of its inputs.
using Results = std::vector<Tensor>;
using Operation = std::function<Variable(const std::vector<Variable>&)>;

Results run(const Operation& operation, const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input.clone(), true);
  Variable y = operation(leaves);
  y.backward(random_tensor(y.shape(), 5, y.data().dtype()));
  Results results{y.data()};
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void expect_same_bits_on_threads(const Operation& operation, const std::vector<Tensor>& inputs) {
  const Results alone = run(operation, inputs);
  for (const int count : {2, 5}) {
    const Threads threads(count);
    const Results together = run(operation, inputs);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      ASSERT_EQ(std::memcmp(together[i].raw(), alone[i].raw(), alone[i].nbytes()), 0)
          << "result " << i << " on " << count << " threads";
    }
  }
}

Variable normalise(const std::vector<Variable>& in, const BatchNormOptions& options) {
  const Shape& channels = in[1].shape();
  const DType type = in[0].data().dtype();
  return batch_norm(in[0], in[1], in[2], Tensor::zeros(channels, type), Tensor::full(channels, 1, type), options,
                    in.size() > 3 ? in[3] : Variable());
}

TEST(Kernels, ThreadsDoNotChangeABit) {
  const Tensor a = random_tensor({300, 700}, 1, DType::Float32);
  const Tensor w = random_tensor({210, 700}, 3, DType::Float32);
  const Tensor big = random_tensor({1, 400'000}, 4, DType::Float32);
  expect_same_bits_on_threads([](const auto& in) { return matmul(in[0], in[1]); },
                              {a, random_tensor({700, 210}, 2, DType::Float32)});
  expect_same_bits_on_threads([](const auto& in) { return linear(in[0], in[1], {}); }, {a, w});
  expect_same_bits_on_threads([](const auto& in) { return sum(in[0]); }, {big});
  expect_same_bits_on_threads([](const auto& in) { return scale(in[0], 0.3); }, {big});
}

TEST(ImageKernels, ThreadsDoNotChangeABit) {
  const Tensor x = random_tensor({13, 31, 29, 40}, 1, DType::Float32);
  const Tensor c = random_tensor({40}, 2, DType::Float32);
  const BatchNormOptions relu{.activation = Activation::Relu};
  expect_same_bits_on_threads([&](const auto& in) { return normalise(in, relu); }, {x, c, c});
  expect_same_bits_on_threads([&](const auto& in) { return normalise(in, relu); }, {x, c, c, x});
  expect_same_bits_on_threads(
      [](const auto& in) { return max_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return avg_pool2d(in[0], {.kernel = 3, .stride = 2}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return adaptive_avg_pool2d(in[0], 7); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return silu(in[0]); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return mean(in[0], {1, 2}); }, {x});
  expect_same_bits_on_threads([](const auto& in) { return mul_channels(in[0], in[1]); },
                              {x, random_tensor({13, 40}, 3, DType::Float32)});
  Tensor keys = Tensor::zeros({13}, DType::Int64);
  expect_same_bits_on_threads([&](const auto& in) { return dropout(in[0], 0.5, keys, 1); }, {x});
}

TEST(Conv2d, DoesNotDependOnTheNumberOfThreadsNorOnTheRestOfTheBatch) {
  for (const std::int64_t groups : {1, 2, 36}) {
    const Tensor x = random_tensor({7, 9, 9, 36}, 15, DType::Float32);
    const Tensor w = random_tensor({72 / (groups == 36 ? 2 : 1), 36 / groups, 3, 3}, 16, DType::Float32);
    const Conv2dOptions options{.padding = 1, .groups = groups};
    const auto results = [&](int threads, std::int64_t images) {
      set_num_threads(threads);
      Variable input(x.narrow(0, 0, images).clone(), true);
      Variable weight(w.clone(), true);
      const Variable y = conv2d(input, weight, {}, options);
      sum(mul(y, y)).backward();
      set_num_threads(1);
      return std::vector<Tensor>{y.data(), input.grad(), weight.grad()};
    };
    const std::vector<Tensor> one = results(1, 7);
    const std::vector<Tensor> three = results(3, 7);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(std::memcmp(one[i].raw(), three[i].raw(), one[i].nbytes()), 0) << "result " << i;
    }
    const std::vector<Tensor> fewer = results(2, 3);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(std::memcmp(one[i].raw(), fewer[i].raw(), fewer[i].nbytes()), 0) << "result " << i;
    }
  }
}

// Short and long sums; more rows than one block of them has.
TEST(Kernels, ARowOfAProductDoesNotDependOnTheOtherRows) {
  for (const std::int64_t length : {203, 1030, 1088}) {
    const Tensor x = random_tensor({137, length}, 1, DType::Float32);
    const Tensor w = random_tensor({50, length}, 2, DType::Float32);
    const KernelTable& k = kernels({});
    Tensor all = Tensor::empty({137, 50});
    k.gemm(all, x, false, w, true, false);
    for (const std::int64_t row : {0, 5, 31, 36, 95, 96, 136}) {
      Tensor one = Tensor::empty({1, 50});
      k.gemm(one, x.narrow(0, row, 1), false, w, true, false);
      EXPECT_EQ(values(one), values(all.narrow(0, row, 1))) << "row " << row << ", sums of " << length;
    }
  }
}

}  // namespace
}  // namespace tutti::tensor::test
