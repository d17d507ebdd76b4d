// Against PyTorch's results for the same inputs.
#include <gtest/gtest.h>
#include <tutti/tensor/random.h>

#include "support.h"

namespace tutti::tensor::test {
namespace {

constexpr double kRelative = 1e-12;
constexpr double kAbsolute = 1e-13;

TEST(Golden, TwoLayersWithCrossEntropy) {
  std::map<std::string, Tensor> golden = read_golden("two_layers.txt");
  std::map<std::string, Variable> leaves;
  for (const char* name : {"x", "w1", "b1", "w2", "b2"}) leaves[name] = Variable(golden.at(name), true);
  const Variable hidden = linear(leaves["x"], leaves["w1"], leaves["b1"], Activation::Relu);
  const Variable logits = linear(hidden, leaves["w2"], leaves["b2"]);
  Variable loss = cross_entropy(logits, golden.at("targets").to(DType::Int64));
  loss.backward();
  expect_close(hidden.data(), golden.at("hidden"), kRelative, kAbsolute);
  expect_close(logits.data(), golden.at("logits"), kRelative, kAbsolute);
  expect_close(loss.data(), golden.at("loss"), kRelative, kAbsolute);
  for (auto& [name, leaf] : leaves) {
    SCOPED_TRACE("d" + name);
    expect_close(leaf.grad(), golden.at("d" + name), kRelative, kAbsolute);
  }
}

TEST(Golden, Losses) {
  std::map<std::string, Tensor> golden = read_golden("losses.txt");
  const Tensor classes = golden.at("classes").to(DType::Int64);
  for (const auto& [reduction, suffix] : {std::pair{Reduction::Mean, "_mean"}, std::pair{Reduction::Sum, "_sum"}}) {
    for (const std::string name : {"cross_entropy", "mse_loss"}) {
      SCOPED_TRACE(name + suffix);
      Variable logits(golden.at("logits"), true);
      Variable loss = name == "mse_loss" ? mse_loss(logits, golden.at("target"), reduction)
                                         : cross_entropy(logits, classes, reduction);
      loss.backward();
      expect_close(loss.data(), golden.at(name + suffix), kRelative, kAbsolute);
      expect_close(logits.grad(), golden.at("d_" + name + suffix), kRelative, kAbsolute);
    }
  }
  const Variable logits(golden.at("logits"));
  expect_close(log_softmax(logits).data(), golden.at("log_softmax"), kRelative, kAbsolute);
}

TEST(Golden, UniformIsBitEqual) {
  std::size_t cases = 0;
  for (const auto& [name, tensor] : read_golden("uniform.txt")) {
    SCOPED_TRACE(name);
    const std::vector<double> all = values(tensor);
    Mt19937 generator(static_cast<std::uint64_t>(all[0]));
    const auto low = static_cast<float>(all[1]);
    const auto high = static_cast<float>(all[2]);
    for (std::size_t i = 3; i < all.size(); ++i) {
      ASSERT_EQ(static_cast<double>(generator.uniform(low, high)), all[i]) << "draw " << i - 3;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 4u);
}

}  // namespace
}  // namespace tutti::tensor::test
