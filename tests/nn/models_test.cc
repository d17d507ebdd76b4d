#include <gtest/gtest.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/tests/nn/golden.h>

namespace tutti::nn {
namespace {

using test::grid;
using test::to_vector;

// As the golden script: about 40 values spread over the tensor.
std::vector<double> sample(const Tensor& values) {
  const auto all = to_vector(values);
  const std::size_t step = std::max<std::size_t>(1, (all.size() - 1) / 39);
  std::vector<double> some;
  for (std::size_t i = 0; i < all.size(); i += step) {
    some.push_back(all[i]);
  }
  return some;
}

class InitialWeights : public ::testing::TestWithParam<std::string> {};

TEST_P(InitialWeights, EqualPyTorchsBitForBit) {
  const auto golden = test::read_golden(GetParam() + "_initial.txt");
  std::size_t compared = 0;
  for (const std::uint64_t seed : {0u, 42u}) {
    for (const auto& [name, parameter] : make_model(GetParam(), seed)->named_parameters()) {
      EXPECT_EQ(sample(parameter.data()), golden.at(std::to_string(seed) + ":" + name))
          << "seed " << seed << " " << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, golden.size());
}

INSTANTIATE_TEST_SUITE_P(Models, InitialWeights, ::testing::ValuesIn(model_names()),
                         [](const auto& parameter) { return parameter.param; });

TEST(Models, NamesAndShapes) {
  const auto mlp = make_model("mlp", 0);
  EXPECT_EQ(mlp->describe(), "Sequential(Flatten(), Linear(784, 50), ReLU(), Linear(50, 10))");
  EXPECT_EQ(mlp->parameter_count(), 39760);
  EXPECT_EQ(mlp->forward(Variable(Tensor::zeros({3, 1, 28, 28}))).shape(), (tensor::Shape{3, 10}));
  EXPECT_EQ(make_model("autoencoder", 0)->describe(),
            "Sequential(Flatten(), Linear(784, 128), ReLU(), Linear(128, 128), ReLU(), Linear(128, 128), ReLU(), "
            "Linear(128, 784), ReLU())");
  EXPECT_EQ(make_model("simple_net", 0)->describe(),
            "Sequential(Flatten(), Linear(12288, 512), ReLU(), Linear(512, 128), ReLU(), Linear(128, 64), ReLU(), "
            "Linear(64, 32), ReLU(), Linear(32, 21))");
  EXPECT_EQ(model_names(), (std::vector<std::string>{"mlp", "autoencoder", "simple_net"}));
}

TEST(Models, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    make_model("alexnet", 0);
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "there is no model 'alexnet'; the models are mlp, autoencoder, simple_net");
  }
}

TEST(Models, TrainingTheMlpFollowsPyTorch) {
  const auto expected = test::read_golden("training.txt").at("mlp_adam_losses");
  const auto model = make_model("mlp", 0);
  std::vector<Variable> parameters;
  for (const auto& [name, parameter] : model->named_parameters()) {
    parameters.push_back(parameter);
  }
  const auto adam = make_adam(parameters, {.learning_rate = 1e-3});
  const Variable x(grid(32, 784, 0.1).reshape({32, 1, 28, 28}));
  Tensor y = Tensor::empty({32}, tensor::DType::Int64);
  for (std::int64_t i = 0; i < 32; ++i) {
    y.data<std::int64_t>()[i] = i % 10;
  }
  for (std::size_t step = 0; step < expected.size(); ++step) {
    adam->zero_grad();
    Variable loss = cross_entropy(model->forward(x), y);
    loss.backward();
    adam->step();
    EXPECT_NEAR(loss.data().item(), expected[step], 1e-5) << "step " << step;
  }
}

}  // namespace
}  // namespace tutti::nn
