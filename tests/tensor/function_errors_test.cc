// What the recorded operations refuse, and in which words.
#include <gtest/gtest.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/image_functions.h>
#include <tutti/tests/tensor/support.h>

#include <string>

namespace tutti::tensor::test {
namespace {

Variable zeros(const Shape& shape, DType dtype = DType::Float32) { return Variable(Tensor::zeros(shape, dtype)); }

class FunctionErrors : public ::testing::Test {
 protected:
  const Variable x2_ = zeros({2});
  const Variable x3_ = zeros({3});
  const Variable x2x3_ = zeros({2, 3});
  const Variable x3x2_ = zeros({3, 2});
  const Variable x4x3_ = zeros({4, 3});
  const Tensor two_keys_ = Tensor::zeros({2}, DType::Int64);
  const Tensor three_keys_ = Tensor::zeros({3}, DType::Int64);
};

TEST_F(FunctionErrors, NameBothSides) {
  EXPECT_EQ(text_of([&] { add(x2x3_, x3x2_); }), "add: float32 (2, 3) and float32 (3, 2) differ in shape");
  EXPECT_EQ(text_of([&] { mul(x2_, zeros({2}, DType::Float64)); }),
            "mul: float32 (2) and float64 (2) differ in type; convert one with to()");
  EXPECT_EQ(text_of([&] { matmul(x2x3_, x2x3_); }),
            "matmul: float32 (2, 3) and float32 (2, 3) do not fit: (N, I) x (I, O)");
  EXPECT_EQ(text_of([&] {
              linear(x2x3_, zeros({4, 5}), {});
            }),
            "linear: float32 (2, 3) and float32 (4, 5) do not fit: x is (N, I), w is (O, I)");
  EXPECT_EQ(text_of([&] { linear(x2x3_, x4x3_, x3_); }),
            "linear: float32 (4, 3) and float32 (3) do not fit: w is (O, I), b is (O)");
  EXPECT_EQ(text_of([&] {
              linear(zeros({2, 3, 4}), x4x3_, {});
            }),
            "linear (x): needs 2 dimensions, got float32 (2, 3, 4)");
  EXPECT_EQ(text_of([&] { relu(zeros({2}, DType::Int64)); }),
            "relu: needs float32 or float64, got int64 (2); convert with to()");
  EXPECT_EQ(text_of([&] { mse_loss(x2_, x3_.data()); }), "mse_loss: float32 (2) and float32 (3) differ in shape");
  EXPECT_EQ(text_of([&] { cross_entropy(x2x3_, x2_.data()); }),
            "cross_entropy: float32 (2, 3) and float32 (2) do not fit: logits are (N, C), targets int64 (N)");
}

TEST_F(FunctionErrors, NameWhatIsWrong) {
  EXPECT_EQ(text_of([&] { sum(x2x3_, {0, -2}); }), "sum: axis -2 is given twice or is not one of float32 (2, 3)");
  EXPECT_EQ(text_of([&] { mean(x2x3_, {2}); }), "mean: axis 2 is given twice or is not one of float32 (2, 3)");
  EXPECT_EQ(text_of([&] {
              concat({x2x3_, x3x2_}, 0);
            }),
            "concat: float32 (2, 3) and float32 (3, 2) differ in more than axis 0");
  EXPECT_EQ(text_of([&] { concat({}, 0); }), "concat: needs 1 to 64 inputs, got 0; join in several steps");
  EXPECT_EQ(text_of([&] { concat({x2x3_}, 2); }), "concat: axis 2 is not one of float32 (2, 3)");
  EXPECT_EQ(text_of([&] { pad(x2x3_, {{1, 1}}); }), "pad: 1 margins for float32 (2, 3), which needs one for each axis");
  EXPECT_EQ(text_of([&] {
              pad(x2x3_, {{0, 0}, {0, -1}});
            }),
            "pad: the margins of axis 1 of float32 (2, 3) must not be negative, got 0 and -1");
  EXPECT_EQ(text_of([&] { permute(x2x3_, {0, 0}); }), "permute: the axes (0, 0) do not name each axis of (2, 3) once");
  EXPECT_EQ(text_of([&] { scale_rows(x2x3_, x3_.data()); }),
            "scale_rows: float32 (2, 3) and float32 (3) do not fit: x is (N, ...), factors are (N)");
  EXPECT_EQ(text_of([&] {
              mul_channels(zeros({2, 3, 3, 4}), x2x3_);
            }),
            "mul_channels: float32 (2, 3, 3, 4) and float32 (2, 3) do not fit: x is (N, H, W, C), s is (N, C)");
  EXPECT_EQ(text_of([&] { dropout(x2x3_, 1.5, two_keys_, 0); }),
            "dropout: the probability must be from 0 to 1, got 1.500000");
  EXPECT_EQ(text_of([&] { dropout(x2x3_, 0.5, three_keys_, 0); }),
            "dropout: float32 (2, 3) and int64 (3) do not fit: x is (N, ...), keys are int64 (N), one for each sample");
  EXPECT_EQ(text_of([&] { cross_entropy(x2x3_, two_keys_, Reduction::Mean, -0.1); }),
            "cross_entropy: label_smoothing must be from 0 to 1, got -0.100000");
  EXPECT_EQ(text_of([&] {
              nll_loss(zeros({1, 3}), Tensor::full({1}, 3, DType::Int64));
            }),
            "nll_loss: target 3 in row 0 is outside [0, 3), the classes of the logits");
}

TEST_F(FunctionErrors, CrossEntropyNamesTheRow) {
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 40}) {
    const Tensor targets = Tensor::from<std::int64_t>({3}, {0, 2, wrong});
    EXPECT_EQ(
        text_of([&] {
          cross_entropy(zeros({3, 3}), targets);
        }),
        "cross_entropy: target " + std::to_string(wrong) + " in row 2 is outside [0, 3), the classes of the logits");
  }
}

}  // namespace
}  // namespace tutti::tensor::test
