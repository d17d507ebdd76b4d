#include <gtest/gtest.h>
#include <tutti/nn/module.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/nn/checks.h>

namespace tutti::nn {
namespace {

// A module with a parameter, a buffer and a child of its own.
class Leaf : public Module {
 public:
  Leaf() {
    weight = register_parameter("weight", Tensor::full({2, 3}, 2));
    running_mean = register_buffer("running_mean", Tensor::zeros({3}));
  }
  Variable forward(const Variable& input) override { return tensor::mul(input, weight); }
  std::string describe() const override { return "Leaf()"; }
  using Module::register_buffer;
  using Module::register_parameter;

  Variable weight;
  Tensor running_mean;
};

class Tree : public Module {
 public:
  Tree() {
    scale = register_parameter("scale", Tensor::full({1}, 1));
    first = register_module("layer1", std::make_shared<Leaf>());
    second = register_module("layer2", std::make_shared<Leaf>());
  }
  Variable forward(const Variable& input) override { return second->forward(first->forward(input)); }
  std::string describe() const override { return "Tree()"; }

  Variable scale;
  std::shared_ptr<Leaf> first;
  std::shared_ptr<Leaf> second;
};

TEST(Module, NamesStateInRegistrationOrder) {
  const Tree tree;
  std::vector<std::string> parameters;
  for (const auto& [name, parameter] : tree.named_parameters()) {
    EXPECT_TRUE(parameter.requires_grad()) << name;
    parameters.push_back(name);
  }
  std::vector<std::string> buffers;
  for (const auto& [name, buffer] : tree.named_buffers()) {
    buffers.push_back(name);
  }
  EXPECT_EQ(parameters, (std::vector<std::string>{"scale", "layer1.weight", "layer2.weight"}));
  EXPECT_EQ(buffers, (std::vector<std::string>{"layer1.running_mean", "layer2.running_mean"}));
  EXPECT_EQ(tree.parameter_count(), 1 + 6 + 6);
}

TEST(Module, NamedStateSharesTheModulesMemory) {
  Tree tree;
  tree.named_parameters()[1].second.data().fill(7);
  tree.named_buffers()[0].second.fill(5);
  EXPECT_EQ(tree.first->weight.data().data<float>()[5], 7);
  EXPECT_EQ(tree.first->running_mean.data<float>()[2], 5);
}

TEST(Module, ZeroGradForgetsAllGradients) {
  Tree tree;
  tensor::sum(tree.forward(Variable(Tensor::full({2, 3}, 1)))).backward();
  ASSERT_TRUE(tree.first->weight.has_grad());
  ASSERT_TRUE(tree.second->weight.has_grad());
  tree.zero_grad();
  for (const auto& [name, parameter] : tree.named_parameters()) {
    EXPECT_FALSE(parameter.has_grad()) << name;
  }
}

TEST(Module, TrainReachesChildren) {
  Tree tree;
  EXPECT_TRUE(tree.second->is_training());
  tree.train(false);
  EXPECT_FALSE(tree.is_training());
  EXPECT_FALSE(tree.second->is_training());
  tree.train();
  EXPECT_TRUE(tree.first->is_training());
}

TEST(Module, RefusesNamesThatWouldBeAmbiguous) {
  Leaf leaf;
  EXPECT_THROW(leaf.register_parameter("weight", Tensor::zeros({1})), std::invalid_argument);
  EXPECT_THROW(leaf.register_parameter("a.b", Tensor::zeros({1})), std::invalid_argument);
  EXPECT_THROW(leaf.register_buffer("", Tensor::zeros({1})), std::invalid_argument);
  EXPECT_EQ(leaf.named_parameters().size(), 1u);
  EXPECT_EQ(leaf.named_buffers().size(), 1u);
}

TEST(Module, ToPlacesParametersGradientsAndBuffersForAllHandles) {
  constexpr tensor::Device kSecond{tensor::Device::Kind::Cpu, 1};
  Tree tree;
  Variable loss = tensor::sum(tree.second->forward(Variable(Tensor::full({2, 3}, 1))));
  loss.backward();
  tree.second->to(kSecond);
  EXPECT_EQ(tree.second->weight.data().device(), kSecond);
  EXPECT_EQ(tree.second->weight.grad().device(), kSecond);
  EXPECT_EQ(tree.second->running_mean.device(), kSecond);
  EXPECT_EQ(tree.named_buffers()[1].second.device(), kSecond);
  EXPECT_EQ(tree.first->weight.data().device(), tensor::Device{});
  EXPECT_EQ(tree.first->running_mean.device(), tensor::Device{});
  EXPECT_THROW(tree.forward(Variable(Tensor::full({2, 3}, 1))), std::invalid_argument);
}

TEST(Module, ChildrenAreFoundByName) {
  const Tree tree;
  EXPECT_EQ(tree.child("layer2"), tree.second);
  ASSERT_EQ(tree.named_children().size(), 2u);
  EXPECT_EQ(tree.named_children()[0].first, "layer1");
  EXPECT_EQ(test::error_of([&] { (void)tree.child("layer3"); }), "Tree() has no child 'layer3'; it has layer1, layer2");
}

}  // namespace
}  // namespace tutti::nn
