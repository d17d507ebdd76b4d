#include <gtest/gtest.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/tensor/allocator.h>
#include <tutti/tests/nn/checks.h>
#include <tutti/tests/nn/golden.h>
#include <tutti/tests/nn/keyed.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace tutti::nn {
namespace {

using test::error_of;
using test::grid;
using test::parameters_of;
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

INSTANTIATE_TEST_SUITE_P(Models, InitialWeights, ::testing::Values("mlp", "autoencoder", "simple_net"),
                         [](const auto& parameter) { return parameter.param; });

TEST(Models, NamesAndShapes) {
  const auto mlp = make_model("mlp", 0);
  EXPECT_EQ(mlp->describe(), "Sequential(Flatten(), Linear(784, 50), ReLU(), Linear(50, 10))");
  EXPECT_EQ(mlp->parameter_count(), 39760);
  EXPECT_EQ(mlp->forward(Variable(Tensor::zeros({3, 28, 28, 1}))).shape(), (tensor::Shape{3, 10}));
  EXPECT_EQ(make_model("autoencoder", 0)->describe(),
            "Sequential(Flatten(), Linear(784, 128), ReLU(), Linear(128, 128), ReLU(), Linear(128, 128), ReLU(), "
            "Linear(128, 784), ReLU())");
  EXPECT_EQ(make_model("simple_net", 0)->describe(),
            "Sequential(Flatten(), Linear(12288, 512), ReLU(), Linear(512, 128), ReLU(), Linear(128, 64), ReLU(), "
            "Linear(64, 32), ReLU(), Linear(32, 21))");
  EXPECT_EQ(model_names(), (std::vector<std::string>{"mlp", "autoencoder", "simple_net", "cnn", "lenet5", "resnet18",
                                                     "resnet34", "resnet50", "resnet101", "efficientnet_b0"}));
}

TEST(Models, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  EXPECT_EQ(error_of([] { make_model("alexnet", 0); }),
            "there is no model 'alexnet'; the models are mlp, autoencoder, simple_net, cnn, lenet5, resnet18, "
            "resnet34, resnet50, resnet101, efficientnet_b0");
}

// The names of the others are those of their golden files (ModelGolden, below).
TEST(Models, NamesOfEfficientNetAreTorchvisions) {
  std::set<std::string> names;
  const auto model = make_model("efficientnet_b0", 0);
  for (const auto& [name, parameter] : model->named_parameters()) names.insert(name);
  for (const auto& [name, buffer] : model->named_buffers()) names.insert(name);
  for (const char* name :
       {"features.0.0.weight", "features.1.0.block.1.fc1.bias", "features.2.0.block.3.1.running_mean",
        "features.6.3.block.2.fc2.weight", "features.8.1.weight", "classifier.1.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(names.size(), 213u + 3 * 49);
}

TEST(Models, TheNumberOfClassesIsAnOption) {
  EXPECT_EQ(make_model("lenet5", 0, {.classes = 7})->forward(Variable(Tensor::zeros({2, 28, 28, 1}))).shape(),
            (tensor::Shape{2, 7}));
  EXPECT_EQ(error_of([] { make_model("cnn", 0, {.classes = -1}); }), "the model cnn cannot have -1 classes");
  EXPECT_EQ(error_of([] { make_model("autoencoder", 0, {.classes = 3}); }),
            "the model autoencoder cannot have 3 classes; it has none");
}

// What a step takes from the allocator it gives back: parameters, gradients and statistics stay, nothing else.
TEST(Models, LiveMemoryReturnsToItsBaselineAfterEachStep) {
  for (const std::string name : {"mlp", "cnn", "resnet18", "efficientnet_b0"}) {
    const auto model = make_model(name, 0);
    const auto sgd = make_sgd(parameters_of(*model), {.learning_rate = 0.01, .momentum = 0.9});
    const bool digits = name == "mlp" || name == "cnn";
    const Variable x(digits ? Tensor::full({2, 28, 28, 1}, 0.5) : Tensor::full({2, 32, 32, 3}, 0.5));
    const Tensor labels = Tensor::from<std::int64_t>({2}, {1, 2});
    const SampleKeys keys(Tensor::from<std::int64_t>({2}, {11, 12}));
    const auto step = [&] {
      model->zero_grad();
      cross_entropy(model->forward(x), labels).backward();
      sgd->step();
    };
    step();  // gradients come into being
    model->zero_grad();
    const std::size_t baseline = tensor::cpu_allocator().live_bytes();
    for (int i = 0; i < 2; ++i) {
      step();
      model->zero_grad();
      EXPECT_EQ(tensor::cpu_allocator().live_bytes(), baseline) << name;
    }
    const std::size_t asked = tensor::cpu_allocator().system_allocations();
    step();
    EXPECT_EQ(tensor::cpu_allocator().system_allocations(), asked) << name << ": a step asks the system for nothing";
  }
}

TEST(Models, TrainingTheMlpFollowsPyTorch) {
  const auto expected = test::read_golden("training.txt").at("mlp_adam_losses");
  const auto model = make_model("mlp", 0);
  const auto adam = make_adam(parameters_of(*model), {.learning_rate = 1e-3});
  const Variable x(grid(32, 784, 0.1).reshape({32, 28, 28, 1}));
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

// The convolutional models against PyTorch: names, first weights, logits, gradients, running statistics.

constexpr const char* kModels[] = {"cnn", "lenet5", "resnet18", "resnet34", "resnet50", "resnet101", "efficientnet_b0"};

bool takes_digits(const std::string& name) { return name == "cnn" || name == "lenet5"; }

Tensor inputs_for(const std::string& name, std::int64_t count = 4) {
  return takes_digits(name) ? test::keyed_tensor({count, 28, 28, 1}, 100000)
                            : test::keyed_tensor({count, 64, 64, 3}, 100000);
}

Tensor first_labels(std::int64_t count) {
  Tensor labels = Tensor::empty({count}, tensor::DType::Int64);
  for (std::int64_t i = 0; i < count; ++i) labels.data<std::int64_t>()[i] = i;
  return labels;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// Returns the largest difference, as a part of `scale`.
double difference(const std::vector<double>& found, const std::vector<double>& expected, double scale) {
  EXPECT_EQ(found.size(), expected.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    most = std::max(most, std::isnan(found[i]) ? INFINITY : std::abs(found[i] - expected[i]));
  }
  return most / scale;
}

class ModelGolden : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  const test::Golden golden_ = test::read_golden("model_" + name_ + ".txt");
};

// What https://pytorch.org/vision/stable/models.html lists, with 1000 classes.
const std::map<std::string, std::int64_t> kPublishedCounts = {{"resnet18", 11689512},
                                                              {"resnet34", 21797672},
                                                              {"resnet50", 25557032},
                                                              {"resnet101", 44549160},
                                                              {"efficientnet_b0", 5288548}};

void expect_first_weights(const std::string& model_name, const Module& model, const test::Golden& golden) {
  const auto parameters = model.named_parameters();
  if (!takes_digits(model_name)) {
    const tensor::Shape last = parameters.back().second.shape();
    const std::int64_t inputs = parameters[parameters.size() - 2].second.shape()[1];
    ASSERT_EQ(last, (tensor::Shape{21}));
    EXPECT_EQ(model.parameter_count() + (1000 - 21) * (inputs + 1), kPublishedCounts.at(model_name));
  }
  std::size_t compared = 0;
  for (const auto& [name, parameter] : parameters) {
    const auto values = to_vector(parameter.data());
    if (parameter.shape().rank() == 1) continue;
    const auto& expected = golden.at("initial:" + name);
    const std::vector<double> some{values.front(), values[values.size() / 2], values.back()};
    double squares = 0;
    for (const double value : values) squares += value * value;
    const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
    EXPECT_LT(difference(some, expected, deviation), 1e-6) << name;  // the last bits of log, cos and sin
    ++compared;
  }
  const auto wanted = std::count_if(golden.begin(), golden.end(),
                                    [](const auto& entry) { return entry.first.starts_with("initial:"); });
  EXPECT_EQ(compared, static_cast<std::size_t>(wanted));
}

TEST_P(ModelGolden, FirstWeightsLogitsGradientsAndStatisticsEqualPyTorchs) {
  const auto model = make_model(name_, 0);
  expect_first_weights(name_, *model, golden_);
  test::fill_keyed(*model);
  model->train(name_ != "efficientnet_b0");  // which would drop at random
  const Variable x(inputs_for(name_));
  const Variable logits = model->forward(x);
  const auto& expected_logits = golden_.at("logits");
  EXPECT_LT(difference(to_vector(logits.data()), expected_logits, largest(expected_logits)), 1e-4);
  Variable loss = cross_entropy(logits, first_labels(4));
  EXPECT_NEAR(loss.data().item() / golden_.at("loss")[0], 1, 1e-4);
  loss.backward();

  // An error counts in parts of the gradient's norm; for the small ones, in which rounding errors of the large ones
  // dominate, in parts of a tenth of the norm of all. PyTorch's own float32 is measured alike by the script.
  double total = 0;
  for (const auto& [key, values] : golden_) total += key.starts_with("gradient:") ? values[0] * values[0] : 0;
  const double least = 0.1 * std::sqrt(total);
  std::size_t compared = 0;
  double worst = 0;
  for (const auto& [name, parameter] : model->named_parameters()) {
    const auto& expected = golden_.at("gradient:" + name);
    const double error = difference(test::summary(parameter.grad()), expected, std::max(expected[0], least));
    EXPECT_LT(error, 1e-4) << name;
    worst = std::max(worst, error);
    ++compared;
  }
  RecordProperty("worst_gradient_error", std::to_string(worst));
  std::size_t counters = 0;
  for (const auto& [name, buffer] : model->named_buffers()) {
    if (buffer.rank() == 0) {
      EXPECT_EQ(buffer.item(), model->is_training() ? 1 : 0) << name;
      EXPECT_TRUE(name.ends_with(".num_batches_tracked")) << name;
      ++counters;
    } else if (model->is_training()) {
      const auto& expected = golden_.at("buffer:" + name);
      EXPECT_LT(difference(test::summary(buffer), expected, expected[0]), 1e-4) << name;
      ++compared;
    }
  }
  EXPECT_EQ(model->named_buffers().size(), 3 * counters);
  const auto wanted = std::count_if(golden_.begin(), golden_.end(), [](const auto& entry) {
    return entry.first.starts_with("gradient:") || entry.first.starts_with("buffer:");
  });
  EXPECT_EQ(compared, static_cast<std::size_t>(wanted));

  model->train(false);
  const tensor::NoGrad no_grad;
  const auto& expected = golden_.at("evaluation");
  EXPECT_LT(difference(to_vector(model->forward(x).data()), expected, largest(expected)), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelGolden, ::testing::ValuesIn(kModels),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace tutti::nn
