// The GPU's operations against the CPU's, at shapes of models: results and gradients, in float32, float64 and TF32.
//
// The table is the promise: how far an operation's results may be from the CPU's of the same type, as a share of the
// largest one. Sums in another order differ by some roundings (1.2e-7 and 2.2e-16 each); exponentials come from another
// library; TF32 takes 10 bits of each factor (4.9e-4).
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tensor/autograd/joined_statistics.h>
#include <tutti/tensor/products.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "../support.h"

namespace tutti::tensor::test {
namespace {

using Inputs = std::vector<Variable>;

[[maybe_unused]] const Device kOfTheSuite = test_device() = {Device::Kind::Cuda, 0};

struct Tolerances {
  double single;
  double twice;
  double tf32 = 0;  // 0: the operation has no products
};

constexpr Tolerances kExact{0, 0};                     // moves numbers
constexpr Tolerances kElement{3e-7, 5e-16};            // a few roundings an element
constexpr Tolerances kCurve{2e-6, 4e-15};              // exponentials
constexpr Tolerances kSum{4e-6, 1e-14};                // sums of some thousand numbers
constexpr Tolerances kProduct{4e-6, 1e-14, 2e-3};      // and of products
constexpr Tolerances kLongProduct{1e-5, 1e-13, 2e-3};  // sums of more than ten thousand products
constexpr Tolerances kNormalised{2e-5, 5e-14};         // sums, divided by roots of sums

struct Operation {
  const char* name;
  Tolerances tolerances;
  std::vector<Shape> inputs;
  Function f;
};

Variable normalise(const Inputs& in, Activation activation) {
  const Shape channels{in[0].shape()[-1]};
  const Device device = in[0].data().device();
  const DType type = in[0].data().dtype();
  return batch_norm(in[0], in[1], in[2], Tensor::zeros(channels, type, device), Tensor::full(channels, 1, type, device),
                    {.activation = activation}, in.size() > 3 ? in[3] : Variable());
}

Tensor labels(const Variable& logits, std::int64_t classes) {
  const std::int64_t rows = logits.shape()[0];
  Tensor all = Tensor::empty({rows}, DType::Int64);
  for (std::int64_t i = 0; i < rows; ++i) all.data<std::int64_t>()[i] = (7 * i + 3) % classes;
  return beside(logits, all);
}

/// Not with TF32, whose roundings change the sign of results near 0 and so let whole gradients through or not.
Activation relu_of_exact_products() {
  return float32_products() == Float32Products::Full ? Activation::Relu : Activation::None;
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> kOperations = {
      {"add", kElement, {{64, 50}, {64, 50}}, [](const Inputs& in) { return add(in[0], in[1]); }},
      {"sub", kElement, {{64, 50}, {64, 50}}, [](const Inputs& in) { return sub(in[0], in[1]); }},
      {"mul", kElement, {{64, 50}, {64, 50}}, [](const Inputs& in) { return mul(in[0], in[1]); }},
      {"scale", kElement, {{64, 50}}, [](const Inputs& in) { return scale(in[0], -2.5); }},
      {"relu", kExact, {{64, 50}}, [](const Inputs& in) { return relu(in[0]); }},
      {"permute",
       kExact,
       {{4, 5, 6, 7}},
       [](const Inputs& in) {
         return permute(in[0], {0, 3, 1, 2});
       }},
      {"concat",
       kExact,
       {{4, 5, 6}, {4, 5, 6}},
       [](const Inputs& in) {
         return concat({in[0], in[1]}, 1);
       }},
      {"pad",
       kExact,
       {{4, 5, 6}},
       [](const Inputs& in) {
         return pad(in[0], {{0, 0}, {1, 2}, {3, 0}}, 0.5);
       }},
      {"sum", kSum, {{64, 500}}, [](const Inputs& in) { return sum(in[0]); }},
      {"mean_axes",
       kSum,
       {{8, 7, 7, 40}},
       [](const Inputs& in) {
         return mean(in[0], {1, 2});
       }},
      {"mul_channels", kSum, {{4, 7, 7, 24}, {4, 24}}, [](const Inputs& in) { return mul_channels(in[0], in[1]); }},
      {"scale_rows",
       kElement,
       {{8, 60}},
       [](const Inputs& in) { return scale_rows(in[0], beside(in[0], random_tensor({8}, 3))); }},
      {"silu", kCurve, {{64, 50}}, [](const Inputs& in) { return silu(in[0]); }},
      {"sigmoid", kCurve, {{64, 50}}, [](const Inputs& in) { return sigmoid(in[0]); }},
      {"tanh", kCurve, {{64, 50}}, [](const Inputs& in) { return tensor::tanh(in[0]); }},
      {"relu6", kExact, {{64, 50}}, [](const Inputs& in) { return relu6(in[0]); }},
      {"softmax", kCurve, {{64, 21}}, [](const Inputs& in) { return softmax(in[0]); }},
      {"cross_entropy",
       kCurve,
       {{64, 10}},
       [](const Inputs& in) { return cross_entropy(in[0], labels(in[0], 10), Reduction::Mean, 0.1); }},
      {"nll_loss",
       kCurve,
       {{64, 10}},
       [](const Inputs& in) { return nll_loss(log_softmax(in[0]), labels(in[0], 10)); }},
      {"mse_loss",
       kSum,
       {{64, 100}},
       [](const Inputs& in) {
         return mse_loss(in[0], beside(in[0], random_tensor({64, 100}, 5)));
       }},
      {"dropout",
       kElement,
       {{6, 70}},
       [](const Inputs& in) { return dropout(in[0], 0.4, beside(in[0], Tensor::full({6}, 77, DType::Int64)), 2); }},
      {"matmul", kProduct, {{70, 90}, {90, 33}}, [](const Inputs& in) { return matmul(in[0], in[1]); }},
      {"linear",
       kProduct,
       {{64, 784}, {50, 784}, {50}},
       [](const Inputs& in) { return linear(in[0], in[1], in[2], relu_of_exact_products()); }},
      {"linear_no_bias",
       kProduct,
       {{64, 50}, {10, 50}},
       [](const Inputs& in) { return linear(in[0], in[1], {}, relu_of_exact_products()); }},
      {"conv2d_3x3",
       kProduct,
       {{2, 12, 12, 32}, {96, 32, 3, 3}, {96}},
       [](const Inputs& in) {
         return conv2d(in[0], in[1], in[2], {.padding = 1, .activation = relu_of_exact_products()});
       }},
      {"conv2d_stem_7x7_stride_2",
       kProduct,
       {{2, 32, 32, 3}, {20, 3, 7, 7}},
       [](const Inputs& in) { return conv2d(in[0], in[1], {}, {.stride = 2, .padding = 3}); }},
      {"conv2d_3x3_stride_2",
       kProduct,
       {{2, 11, 10, 24}, {72, 24, 3, 3}},
       [](const Inputs& in) { return conv2d(in[0], in[1], {}, {.stride = 2, .padding = 1}); }},
      {"conv2d_1x1_large_tiles",
       kLongProduct,
       {{4, 64, 65, 20}, {68, 20, 1, 1}},
       [](const Inputs& in) { return conv2d(in[0], in[1], {}); }},
      {"conv2d_groups_dilated",
       kProduct,
       {{2, 9, 9, 24}, {32, 6, 3, 3}},
       [](const Inputs& in) { return conv2d(in[0], in[1], {}, {.padding = 2, .dilation = 2, .groups = 4}); }},
      {"conv2d_depthwise",
       kProduct,
       {{3, 13, 13, 40}, {40, 1, 5, 5}, {40}},
       [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 2, .groups = 40}); }},
      {"batch_norm",
       kNormalised,
       {{4, 9, 9, 40}, {40}, {40}},
       [](const Inputs& in) { return normalise(in, Activation::None); }},
      {"batch_norm_relu_residual",
       kNormalised,
       {{4, 9, 9, 37}, {37}, {37}, {4, 9, 9, 37}},
       [](const Inputs& in) { return normalise(in, Activation::Relu); }},
      {"max_pool2d",
       kSum,
       {{2, 17, 16, 24}},
       [](const Inputs& in) { return max_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); }},
      {"avg_pool2d",
       kSum,
       {{2, 17, 16, 24}},
       [](const Inputs& in) { return avg_pool2d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); }},
      {"adaptive_avg_pool2d", kSum, {{2, 7, 7, 24}}, [](const Inputs& in) { return adaptive_avg_pool2d(in[0], 1); }},
  };
  return kOperations;
}

// The result and the gradients of all inputs.
std::vector<Tensor> compute(const Operation& operation, DType type, Device device) {
  std::vector<Variable> leaves;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    leaves.emplace_back(random_tensor(operation.inputs[i], 11 + i, DType::Float32, 1e-3).to(type).to(device), true);
  }
  Variable y = operation.f(leaves);
  y.backward(random_tensor(y.shape(), 5, DType::Float32).to(type).to(device));
  std::vector<Tensor> all{y.data()};
  for (const Variable& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

void expect_agreement(const Operation& operation, DType type, double tolerance) {
  const std::vector<Tensor> expected = compute(operation, type, {});
  const std::vector<Tensor> found = compute(operation, type, test_device());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].device(), test_device());
    ASSERT_EQ(found[i].shape(), expected[i].shape());
    const std::vector<double> e = values(expected[i]);
    const std::vector<double> f = values(found[i]);
    double largest = 0;
    double error = 0;
    for (std::size_t k = 0; k < e.size(); ++k) {
      largest = std::max(largest, std::abs(e[k]));
      error = std::max(error, std::isnan(f[k]) ? HUGE_VAL : std::abs(f[k] - e[k]));
    }
    EXPECT_LE(error, tolerance * largest) << operation.name << " in " << name(type) << ", "
                                          << (i == 0 ? "the result" : "the gradient of input " + std::to_string(i - 1))
                                          << ": off by " << error / largest << " of the largest";
  }
}

class Agreement : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Operation& operation() const { return operations()[GetParam()]; }
  ~Agreement() override { set_float32_products(Float32Products::Full); }
};

TEST_P(Agreement, WithTheCpuWithinTheTable) {
  const Tolerances& tolerances = operation().tolerances;
  expect_agreement(operation(), DType::Float32, tolerances.single);
  expect_agreement(operation(), DType::Float64, tolerances.twice);
  if (tolerances.tf32 == 0) return;
  set_float32_products(Float32Products::Tf32);
  expect_agreement(operation(), DType::Float32, tolerances.tf32);
  expect_agreement(operation(), DType::Float64, tolerances.twice);
}

// The same inputs give the same bits, at every run.
TEST_P(Agreement, IsTheSameAtEveryRun) {
  for (const Float32Products products : {Float32Products::Full, Float32Products::Tf32}) {
    if (products != Float32Products::Full && operation().tolerances.tf32 == 0) break;
    set_float32_products(products);
    const std::vector<Tensor> once = compute(operation(), DType::Float32, test_device());
    const std::vector<Tensor> again = compute(operation(), DType::Float32, test_device());
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(values(once[i]), values(again[i])) << "result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Agreement, ::testing::Range(std::size_t{0}, operations().size()),
                         [](const auto& given) { return std::string(operations()[given.param].name); });

// Max pooling is told by its choices, too: the gradient of equal maxima goes where the CPU's goes.
TEST(DeviceAgreement, MaximaAreChosenAsOnTheCpu) {
  Tensor x = random_tensor({2, 15, 14, 5}, 3, DType::Float32);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::round(x.data<float>()[i] * 3);  // many equals
  const auto gradient = [&](Device device) {
    Variable leaf(x.to(device), true);
    sum(max_pool2d(leaf, {.kernel = 3, .stride = 2, .padding = 1})).backward();
    return values(leaf.grad());
  };
  EXPECT_EQ(gradient(test_device()), gradient({}));
}

// cuDNN has relu in the same pass: https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-cnn-library.html
TEST(DeviceAgreement, ReluOfAConvolutionHidesNoNaN) {
  Tensor x = random_tensor({1, 6, 6, 8}, 3, DType::Float32);
  x.data<float>()[8 * 20 + 3] = std::nanf("");
  const auto nans = [&](Device device) {
    const Variable w(random_tensor({16, 8, 3, 3}, 4, DType::Float32).to(device));
    const Variable bias(random_tensor({16}, 5, DType::Float32).to(device));
    const auto y =
        values(conv2d(Variable(x.to(device)), w, bias, {.padding = 1, .activation = Activation::Relu}).data());
    return std::ranges::count_if(y, [](double value) { return std::isnan(value); });
  };
  EXPECT_EQ(nans({}), 9 * 16);
  EXPECT_EQ(nans(test_device()), 9 * 16);
}

struct OneHolder final : BatchHolders {
  Tensor gather(const Tensor& mine) override {
    EXPECT_EQ(mine.device(), Device{});
    return mine.reshape({1, mine.numel()});
  }
};

// Statistics of a batch of which others hold parts travel over the CPU; alone, they are one's own.
TEST(DeviceAgreement, JoinedStatisticsOfOneHolderAreItsOwn) {
  const auto results = [&](bool joined) {
    Variable x(placed(random_tensor({3, 5, 5, 6}, 1)), true);
    const Variable weight(placed(random_tensor({6}, 2)));
    BatchNormOptions options{.activation = Activation::Relu};
    if (joined) options.holders = std::make_shared<OneHolder>();
    Tensor mean = placed(Tensor::zeros({6}, DType::Float64));
    Tensor variance = placed(Tensor::full({6}, 1, DType::Float64));
    Variable y = batch_norm(x, weight, weight, mean, variance, options);
    y.backward(placed(random_tensor(y.shape(), 4)));
    return std::vector<Tensor>{y.data(), x.grad(), mean, variance};
  };
  const std::vector<Tensor> alone = results(false);
  const std::vector<Tensor> joined = results(true);
  for (std::size_t i = 0; i < alone.size(); ++i) expect_close(joined[i], alone[i], 1e-12, 1e-12);
}

}  // namespace
}  // namespace tutti::tensor::test
