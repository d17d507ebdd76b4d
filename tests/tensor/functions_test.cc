// gradcheck for every recorded operation. What each refuses is in function_errors_test.cc.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>

#include <random>

#include "support.h"

namespace tutti::tensor::test {
namespace {

using Inputs = std::vector<Variable>;

class Gradcheck : public ::testing::TestWithParam<int> {
 protected:
  // Random extents from the case's number; the first cases are the smallest ones.
  std::int64_t extent(std::int64_t most) {
    if (GetParam() == 0) return 1;
    return std::uniform_int_distribution<std::int64_t>(1, most)(random_);
  }
  Tensor draw(const Shape& shape, double gap = 0) { return random_tensor(shape, random_(), DType::Float64, gap); }

  std::mt19937 random_{static_cast<std::uint32_t>(GetParam())};
};

TEST_P(Gradcheck, Add) {
  const Shape shape{extent(4), extent(5)};
  gradcheck([](const Inputs& in) { return add(in[0], in[1]); }, {draw(shape), draw(shape)});
}

TEST_P(Gradcheck, Mul) {
  const Shape shape{extent(4), extent(5), extent(3)};
  gradcheck([](const Inputs& in) { return mul(in[0], in[1]); }, {draw(shape), draw(shape)});
}

TEST_P(Gradcheck, SubAndDiv) {
  const Shape shape{extent(4), extent(5)};
  gradcheck([](const Inputs& in) { return sub(in[0], in[1]); }, {draw(shape), draw(shape)});
  gradcheck([](const Inputs& in) { return div(in[0], in[1]); }, {draw(shape), draw(shape, 0.5)});
  gradcheck([](const Inputs& in) { return div(sub(in[1], in[0]), in[1]); }, {draw(shape), draw(shape, 0.5)});
  gradcheck([](const Inputs& in) { return add(sub(in[0], in[0]), div(in[0], in[0])); }, {draw(shape, 0.5)});
}

TEST_P(Gradcheck, ScaleSumMean) {
  const Shape shape{extent(6), extent(7)};
  gradcheck([](const Inputs& in) { return scale(in[0], -2.5); }, {draw(shape)});
  gradcheck([](const Inputs& in) { return sum(in[0]); }, {draw(shape)});
  gradcheck([](const Inputs& in) { return mean(in[0]); }, {draw(shape)});
}

TEST_P(Gradcheck, Relu) {
  gradcheck([](const Inputs& in) { return relu(in[0]); }, {draw({extent(6), extent(20)}, 0.01)});
}

TEST_P(Gradcheck, ReshapeAndFlatten) {
  const Shape shape{extent(3), extent(4), extent(5)};
  gradcheck([&](const Inputs& in) { return reshape(in[0], {-1}); }, {draw(shape)});
  gradcheck([&](const Inputs& in) { return flatten(in[0]); }, {draw(shape)});
}

TEST_P(Gradcheck, Matmul) {
  const std::int64_t n = extent(9);
  const std::int64_t inner = extent(20);
  const std::int64_t o = extent(18);
  gradcheck([](const Inputs& in) { return matmul(in[0], in[1]); }, {draw({n, inner}), draw({inner, o})});
}

TEST_P(Gradcheck, Linear) {
  const std::int64_t n = extent(9);
  const std::int64_t inner = extent(20);
  const std::int64_t o = extent(18);
  const Tensor x = draw({n, inner});
  const Tensor w = draw({o, inner});
  const Tensor b = draw({o}, 0.05);
  gradcheck([](const Inputs& in) { return linear(in[0], in[1], in[2]); }, {x, w, b});
  gradcheck([](const Inputs& in) { return linear(in[0], in[1], {}); }, {x, w});
  gradcheck([](const Inputs& in) { return linear(in[0], in[1], in[2], Activation::Relu); }, {x, w, b});
  gradcheck([](const Inputs& in) { return linear(in[0], in[1], {}, Activation::Relu); }, {x, w});
}

TEST_P(Gradcheck, Losses) {
  const std::int64_t n = extent(7);
  const std::int64_t classes = extent(20);
  const Tensor logits = draw({n, classes});
  const Tensor target = draw({n, classes});
  Tensor labels = Tensor::empty({n}, DType::Int64);
  for (std::int64_t i = 0; i < n; ++i) labels.data<std::int64_t>()[i] = (3 * i + 1) % classes;
  gradcheck([](const Inputs& in) { return log_softmax(in[0]); }, {logits});
  for (const Reduction reduction : {Reduction::Mean, Reduction::Sum}) {
    gradcheck([&](const Inputs& in) { return cross_entropy(in[0], beside(in[0], labels), reduction); }, {logits});
    gradcheck([&](const Inputs& in) { return cross_entropy(in[0], beside(in[0], labels), reduction, 0.3); }, {logits});
    gradcheck([&](const Inputs& in) { return nll_loss(in[0], beside(in[0], labels), reduction); }, {logits});
    gradcheck(
        [&](const Inputs& in) {
          const Tensor targets = beside(in[0], labels);
          return add(nll_loss(in[0], targets), nll_loss(log_softmax(in[0]), targets));
        },
        {logits});
    gradcheck([&](const Inputs& in) { return mse_loss(in[0], beside(in[0], target), reduction); }, {logits});
  }
}

TEST_P(Gradcheck, Softmax) {
  const Shape shape{extent(3), extent(4), extent(20)};
  gradcheck([](const Inputs& in) { return softmax(in[0]); }, {draw(shape)});
  gradcheck([](const Inputs& in) { return mul(softmax(in[0]), add(in[0], softmax(in[0]))); }, {draw(shape)});
}

TEST_P(Gradcheck, ReductionsOverAxes) {
  const Shape shape{extent(3), extent(4), extent(3), extent(5)};
  const std::vector<std::vector<int>> choices = {{}, {0}, {-1}, {1, 2}, {0, 1, 2}, {3, 0}, {0, 2}, {0, 1, 2, 3}};
  for (const std::vector<int>& axes : choices) {
    for (const bool keepdim : {false, true}) {
      gradcheck([&](const Inputs& in) { return sum(in[0], axes, keepdim); }, {draw(shape)});
      gradcheck([&](const Inputs& in) { return mean(in[0], axes, keepdim); }, {draw(shape)});
    }
    gradcheck([&](const Inputs& in) { return mul(sum(in[0], axes), mean(mul(in[0], in[0]), axes)); }, {draw(shape)});
  }
}

TEST_P(Gradcheck, ConcatAndPad) {
  const std::int64_t rows = extent(3);
  const std::int64_t columns = extent(4);
  const std::int64_t depth = extent(5);
  for (int axis = -3; axis < 3; ++axis) {
    gradcheck(
        [&](const Inputs& in) {
          return concat({in[0], in[1], in[0]}, axis);
        },
        {draw({rows, columns, depth}), draw({rows, columns, depth})});
  }
  gradcheck(
      [](const Inputs& in) {
        return concat({scale(in[0], 2), mul(in[1], in[1]), in[2]}, 1);
      },
      {draw({rows, 2, depth}), draw({rows, columns, depth}), draw({rows, 0, depth})});
  const std::vector<Margin> margins = {{0, extent(3)}, {extent(2), 0}, {1, 1}};
  gradcheck([&](const Inputs& in) { return pad(in[0], margins, 0.5); }, {draw({rows, columns, depth})});
  gradcheck([&](const Inputs& in) { return mul(pad(relu(in[0]), margins), pad(in[0], margins)); },
            {draw({rows, columns, depth}, 0.01)});
}

TEST_P(Gradcheck, RowsAndChannels) {
  const std::int64_t samples = extent(4);
  const Shape image{samples, extent(3), extent(4), extent(20)};
  const Tensor factors = draw({samples});
  gradcheck([&](const Inputs& in) { return scale_rows(in[0], beside(in[0], factors)); }, {draw(image)});
  const Shape channels{samples, image[3]};
  gradcheck([](const Inputs& in) { return mul_channels(in[0], in[1]); }, {draw(image), draw(channels)});
  gradcheck(
      [](const Inputs& in) {
        return add(mul_channels(in[0], mean(in[0], {1, 2})), mul_channels(mul_channels(in[0], in[1]), in[1]));
      },
      {draw(image), draw(channels)});
}

TEST_P(Gradcheck, TheSameVariableTwice) {
  const std::int64_t n = extent(6);
  gradcheck([](const Inputs& in) { return add(in[0], in[0]); }, {draw({n, n})});
  gradcheck([](const Inputs& in) { return mul(in[0], in[0]); }, {draw({n, n})});
  gradcheck([](const Inputs& in) { return matmul(in[0], in[0]); }, {draw({n, n})});
  gradcheck([](const Inputs& in) { return linear(in[0], in[0], {}); }, {draw({n, n})});
  // A first gradient that is passed on unchanged (add, reshape) must not change when a second one is added to it.
  gradcheck(
      [](const Inputs& in) {
        const Variable y = scale(in[0], 3);
        return add(add(y, y), mul(reshape(y, y.shape()), y));
      },
      {draw({n, n})});
}

TEST_P(Gradcheck, NonContiguousInputs) {
  const Tensor left = draw({extent(5), extent(7)});
  const Tensor right = draw({left.shape()[0], extent(4)});
  gradcheck(
      [&](const Inputs& in) {
        const Variable turned(beside(in[0], left).transpose(0, 1));
        return matmul(turned, in[0]);
      },
      {right});
}

INSTANTIATE_TEST_SUITE_P(Shapes, Gradcheck, ::testing::Range(0, 6));

TEST(Functions, EmptyBatchesDoNotCrash) {
  Variable w(placed(Tensor::full({4, 3}, 1)), true);
  const Variable y = linear(Variable(placed(Tensor::zeros({0, 3}))), w, {}, Activation::Relu);
  EXPECT_EQ(y.shape(), (Shape{0, 4}));
  Variable total = sum(y);
  total.backward();
  EXPECT_EQ(values(w.grad()), std::vector<double>(12, 0.0));
  EXPECT_EQ(cross_entropy(y, placed(Tensor::zeros({0}, DType::Int64)), Reduction::Sum).data().item(), 0);
  EXPECT_EQ(log_softmax(y).shape(), (Shape{0, 4}));
}

}  // namespace
}  // namespace tutti::tensor::test
