// gradcheck for the operations on images, and what each refuses.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/image_functions.h>

#include <random>
#include <stdexcept>

#include "support.h"

namespace tutti::tensor::test {
namespace {

using Inputs = std::vector<Variable>;

class ImageGradcheck : public ::testing::TestWithParam<int> {
 protected:
  // Random extents from the case's number; case 0 has the smallest ones.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    if (GetParam() == 0) return least;
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool coin() { return between(0, 1) == 1; }
  Tensor draw(const Shape& shape, double gap = 0) { return random_tensor(shape, random_(), DType::Float64, gap); }

  Pool2dOptions pool_options() {
    Pool2dOptions options{.kernel = {between(1, 4), between(1, 4)}};
    options.stride = {between(0, 3), between(0, 3)};
    options.padding = {between(0, options.kernel.height / 2), between(0, options.kernel.width / 2)};
    options.ceil_mode = coin();
    options.count_include_pad = coin();
    return options;
  }

  std::mt19937 random_{static_cast<std::uint32_t>(GetParam())};
};

TEST_P(ImageGradcheck, Pooling) {
  const Pool2dOptions options = pool_options();
  const Shape shape{between(1, 3), between(4, 7), between(4, 7), between(1, 20)};
  gradcheck([&](const Inputs& in) { return max_pool2d(in[0], options); }, {draw(shape)});
  gradcheck([&](const Inputs& in) { return avg_pool2d(in[0], options); }, {draw(shape)});
  const Pair output{between(1, 9), between(1, 5)};
  gradcheck([&](const Inputs& in) { return adaptive_avg_pool2d(in[0], output); }, {draw(shape)});
  gradcheck(
      [&](const Inputs& in) {
        return add(mul(max_pool2d(in[0], options), avg_pool2d(in[0], options)), max_pool2d(in[0], options));
      },
      {draw(shape)});
}

// y = activation(batch norm) over inputs x, weight, bias and, if there are four, residual.
Variable normalise(const Inputs& in, const BatchNormOptions& options) {
  const DType type = in[0].data().dtype();
  const Shape channels{in[0].shape()[-1]};
  const Device device = in[0].data().device();
  return batch_norm(in[0], in[1], in[2], Tensor::full(channels, 0.1, type, device),
                    Tensor::full(channels, 0.7, type, device), options, in.size() > 3 ? in[3] : Variable());
}

TEST_P(ImageGradcheck, BatchNorm) {
  const std::int64_t channels = between(1, 20);
  const Shape shape{between(2, 3), between(1, 5), between(1, 5), channels};
  for (const bool training : {true, false}) {
    for (const Activation activation : {Activation::None, Activation::Relu}) {
      SCOPED_TRACE(::testing::Message() << "training " << training << " relu " << (activation == Activation::Relu));
      const BatchNormOptions options{.training = training, .epsilon = 0.01, .activation = activation};
      const auto f = [&](const Inputs& in) { return normalise(in, options); };
      gradcheck(f, {draw(shape), draw({channels}), draw({channels})});
      gradcheck(f, {draw(shape), draw({channels}), draw({channels}), draw(shape)});
      gradcheck(
          [&](const Inputs& in) {
            return normalise({in[0], in[1], in[1], in[0]}, options);
          },
          {draw(shape), draw({channels})});
    }
  }
}

// The gradient that comes in belongs to others too, and the one that goes out joins others.
TEST_P(ImageGradcheck, BatchNormAmongOthers) {
  const std::int64_t channels = between(1, 9);
  const Shape shape{2, between(1, 4), between(1, 4), channels};
  const BatchNormOptions options{.epsilon = 0.01, .activation = Activation::Relu};
  gradcheck(
      [&](const Inputs& in) {
        const Variable x = scale(in[0], 1.5);
        const Variable r = scale(in[3], -0.5);
        const Variable y = normalise({x, in[1], in[2], r}, options);
        const Variable z = normalise({y, in[1], in[2]}, options);
        return add(add(add(y, z), mul(x, y)), r);
      },
      {draw(shape), draw({channels}), draw({channels}), draw(shape)});
}

TEST_P(ImageGradcheck, Permute) {
  const Shape shape{between(1, 3), between(1, 4), between(1, 4), between(1, 5)};
  std::vector<int> axes{0, 1, 2, 3};
  std::shuffle(axes.begin(), axes.end(), random_);
  gradcheck([&](const Inputs& in) { return mul(permute(in[0], axes), permute(in[0], axes)); }, {draw(shape)});
  gradcheck([](const Inputs& in) { return permute(scale(in[0], 2), {0, -1, 1, 2}); }, {draw(shape)});
}

TEST_P(ImageGradcheck, Curves) {
  Tensor x = draw({between(1, 6), between(1, 40)}, 0.01);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] *= 7;  // both bends of relu6
  gradcheck([](const Inputs& in) { return relu6(in[0]); }, {x});
  gradcheck([](const Inputs& in) { return silu(in[0]); }, {x});
  gradcheck([](const Inputs& in) { return sigmoid(in[0]); }, {x});
  gradcheck([](const Inputs& in) { return tensor::tanh(in[0]); }, {x});
  gradcheck([](const Inputs& in) { return add(mul(silu(in[0]), sigmoid(in[0])), silu(tensor::tanh(in[0]))); }, {x});
}

TEST_P(ImageGradcheck, Dropout) {
  const std::int64_t samples = between(1, 4);
  const Shape shape{samples, between(1, 4), between(1, 9)};
  Tensor keys = Tensor::empty({samples}, DType::Int64);
  for (std::int64_t i = 0; i < samples; ++i) keys.data<std::int64_t>()[i] = static_cast<std::int64_t>(random_());
  for (const double p : {0.0, 0.3, 1.0}) {
    gradcheck([&](const Inputs& in) { return dropout(in[0], p, beside(in[0], keys), 3); }, {draw(shape)});
    gradcheck(
        [&](const Inputs& in) {
          const Tensor own = beside(in[0], keys);
          return mul(dropout(in[0], p, own, 3), dropout(in[0], p, own, 4));
        },
        {draw(shape)});
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ImageGradcheck, ::testing::Range(0, 8));

}  // namespace
}  // namespace tutti::tensor::test
