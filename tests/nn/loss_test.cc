#include <gtest/gtest.h>
#include <tutti/nn/loss.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>

namespace tutti::nn {
namespace {

using tensor::Tensor;
using tensor::Variable;
using test::expect_near;
using test::grid;
using test::to_vector;

class LossGolden : public ::testing::TestWithParam<std::pair<std::string, Reduction>> {};

TEST_P(LossGolden, CrossEntropyEqualsPyTorch) {
  const auto& [word, reduction] = GetParam();
  const auto golden = test::read_golden("losses.txt");
  Variable logits(grid(6, 10, 0.25), true);
  Variable loss = cross_entropy(logits, Tensor::from<std::int64_t>({6}, {3, 1, 4, 1, 5, 9}), reduction);
  loss.backward();
  EXPECT_NEAR(loss.data().item(), golden.at("cross_entropy:" + word).at(0), 2e-6);
  expect_near(to_vector(logits.grad()), golden.at("cross_entropy_grad:" + word), 1e-6, word);
}

TEST_P(LossGolden, ReconstructionEqualsPyTorchsMse) {
  const auto& [word, reduction] = GetParam();
  const auto golden = test::read_golden("losses.txt");
  Variable output(grid(6, 8, 0.25), true);
  const Tensor rows = grid(6, 8, 0.125);
  Tensor flipped = Tensor::empty({6, 8});
  for (std::int64_t r = 0; r < 6; ++r) {
    flipped.narrow(0, r, 1).copy_from(rows.narrow(0, 5 - r, 1));
  }
  Variable loss = reconstruction_loss(output, flipped.reshape({6, 1, 2, 4}), reduction);
  loss.backward();
  EXPECT_NEAR(loss.data().item(), golden.at("mse:" + word).at(0), 1e-5);
  expect_near(to_vector(output.grad()), golden.at("mse_grad:" + word), 1e-6, word);
}

INSTANTIATE_TEST_SUITE_P(Reductions, LossGolden,
                         ::testing::Values(std::pair{"mean", Reduction::Mean}, std::pair{"sum", Reduction::Sum}),
                         [](const auto& parameter) { return parameter.param.first; });

TEST(Loss, ErrorsNameBothShapes) {
  const Variable output(Tensor::zeros({4, 784}));
  const Tensor images = Tensor::zeros({4, 1, 14, 14});
  EXPECT_EQ(test::error_of([&] { reconstruction_loss(output, images); }),
            "reconstruction_loss: the output has shape (4, 784) and the images have shape (4, 1, 14, 14), expected "
            "as many elements for each sample");
  // As many elements in all, but not for each sample.
  EXPECT_THROW(reconstruction_loss(output, Tensor::zeros({784, 4})), std::invalid_argument);
  EXPECT_THROW(reconstruction_loss(output, Tensor()), std::invalid_argument);
}

}  // namespace
}  // namespace tutti::nn
