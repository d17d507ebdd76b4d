#include <gtest/gtest.h>
#include <tutti/tensor/allocator.h>
#include <tutti/tensor/autograd/engine.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/autograd/node.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/in_threads.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "support.h"

namespace tutti::tensor::test {
namespace {

Variable leaf(std::vector<double> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return Variable(Tensor::from(Shape{count}, numbers), true);
}

TEST(Engine, TheHeadersExample) {
  Variable w(Tensor::full({2}, 3.0), true);
  Variable y = sum(mul(w, w));
  y.backward();
  EXPECT_EQ(values(w.grad()), (std::vector<double>{6, 6}));
}

TEST(Engine, GradientsAddUpUntilZeroed) {
  Variable w = leaf({1, 2});
  for (int i = 1; i <= 3; ++i) {
    Variable y = sum(scale(w, 2));
    y.backward();
    EXPECT_EQ(values(w.grad()), std::vector<double>(2, 2.0 * i));
  }
  w.zero_grad();
  EXPECT_FALSE(w.has_grad());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Engine, DiamondsAreCountedBeforeTheyAreLeft) {
  Variable x = leaf({2});
  const Variable a = scale(x, 3);
  const Variable b = mul(a, a);  // 9 x^2
  const Variable c = mul(b, a);  // 27 x^3
  Variable y = sum(add(c, add(b, a)));
  y.backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>{81 * 4 + 18 * 2 + 3});
}

TEST(Engine, SecondBackwardIsAnErrorThatSaysSo) {
  Variable w = leaf({1});
  const Variable shared = scale(w, 2);
  Variable first = sum(shared);
  Variable second = sum(mul(shared, shared));
  first.backward();
  const std::vector<double> before = values(w.grad());
  const auto again = [](Variable& loss) { return text_of<std::logic_error>([&] { loss.backward(); }); };
  tutti::test::expect_parts(again(first), {"an earlier backward used up (operation sum)"});
  tutti::test::expect_parts(again(second), {"(operation scale)"});
  EXPECT_EQ(values(w.grad()), before);
  Variable fresh = sum(scale(w, 2));
  fresh.backward();
  EXPECT_EQ(values(w.grad()), std::vector<double>{4});
}

TEST(Engine, SeedsAndTheirErrors) {
  Variable w = leaf({1, 2});
  Variable y = scale(w, 3);
  EXPECT_THROW(y.backward(), std::invalid_argument);
  EXPECT_THROW(y.backward(Tensor::zeros({2})), std::invalid_argument);  // float32
  EXPECT_THROW(y.backward(Tensor{}), std::invalid_argument);
  const Tensor seed = Tensor::from<double>({2}, {10, 20});
  y.backward(seed);
  EXPECT_EQ(values(w.grad()), (std::vector<double>{30, 60}));
  EXPECT_EQ(values(seed), (std::vector<double>{10, 20}));
  Variable constant(Tensor::zeros({1}));
  EXPECT_THROW(constant.backward(), std::logic_error);
}

TEST(Engine, SeedIsNeverWrittenTo) {
  Variable w(random_tensor({3, 4}, 1), true);
  const Variable x(random_tensor({2, 4}, 2));
  Variable y = linear(x, w, {}, Activation::Relu);  // its backward masks the gradient in place when it may
  const Tensor seed = random_tensor({2, 3}, 3);
  const std::vector<double> before = values(seed);
  y.backward(seed);
  EXPECT_EQ(values(seed), before);
}

TEST(Engine, BackwardFromALeaf) {
  Variable w = leaf({5});
  int calls = 0;
  w.on_grad_ready([&] { ++calls; });
  w.backward();
  w.backward();
  EXPECT_EQ(values(w.grad()), std::vector<double>{2});
  EXPECT_EQ(calls, 2);
}

TEST(Engine, FirstGradientIsNotShared) {
  Variable a = leaf({1});
  Variable b = leaf({1});
  Variable y = add(a, b);
  const Tensor seed = Tensor::full({1}, 1, DType::Float64);
  y.backward(seed);
  a.grad().fill(9);
  EXPECT_EQ(b.grad().item(), 1);
  EXPECT_EQ(seed.item(), 1);
}

TEST(Engine, WritesStraightIntoGivenMemory) {
  Variable w(random_tensor({6, 5}, 1), true);
  Variable b(random_tensor({6}, 2), true);
  const Variable x(random_tensor({4, 5}, 3));
  Tensor bucket = Tensor::full({36}, std::numeric_limits<double>::quiet_NaN(), DType::Float64);
  w.set_grad_memory(bucket.narrow(0, 0, 30).reshape({6, 5}));
  b.set_grad_memory(bucket.narrow(0, 30, 6));
  const auto step = [&] {
    Variable loss = sum(linear(x, w, b, Activation::Relu));
    loss.backward();
  };
  step();  // overwrites the NaN
  EXPECT_TRUE(w.grad().shares_storage(bucket));
  EXPECT_EQ(w.grad().raw(), bucket.raw());
  const std::vector<double> once = values(bucket);
  for (const double value : once) EXPECT_EQ(value, value);
  step();  // adds
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(values(bucket)[i], 2 * once[i]);
  w.zero_grad();
  b.zero_grad();
  EXPECT_FALSE(w.has_grad());
  step();  // overwrites
  EXPECT_EQ(values(bucket), once);
}

TEST(Engine, GivenMemoryTakesOverAnExistingGradient) {
  Variable w = leaf({1, 2});
  Variable y = sum(w);
  y.backward();
  Tensor memory = Tensor::zeros({2}, DType::Float64);
  w.set_grad_memory(memory);
  EXPECT_EQ(values(memory), (std::vector<double>{1, 1}));
  EXPECT_THROW(w.set_grad_memory(Tensor::zeros({3}, DType::Float64)), std::invalid_argument);
  EXPECT_THROW(w.set_grad_memory(Tensor::zeros({2})), std::invalid_argument);
  EXPECT_THROW(w.set_grad_memory(Tensor::zeros({2, 2}, DType::Float64).narrow(1, 0, 1).reshape({2, 1})),
               std::invalid_argument);
  EXPECT_THROW(w.set_grad_memory(Tensor{}), std::invalid_argument);
  EXPECT_THROW(scale(w, 2).set_grad_memory(memory), std::logic_error);
}

TEST(Engine, LeavesAreReadyOnceAndAsEarlyAsPossible) {
  std::vector<std::string> order;
  const auto layer = [&](const std::string& name) {
    Variable w(random_tensor({3, 3}, 5), true);
    w.on_grad_ready([&order, name, w] {
      order.push_back(name);
      EXPECT_TRUE(w.has_grad());
    });
    return w;
  };
  const Variable w1 = layer("w1");
  const Variable w2 = layer("w2");
  const Variable w3 = layer("w3");
  const Variable shared = layer("shared");
  const Variable unused = layer("unused");
  const Variable x(random_tensor({2, 3}, 6), true);
  const auto run = [&] {
    order.clear();
    Variable h = linear(linear(x, shared, {}), w1, {});
    h = linear(linear(linear(h, w2, {}), shared, {}), w3, {});
    Variable loss = sum(h);
    loss.backward();
  };
  const std::vector<std::string> expected{"w3", "w2", "w1", "shared"};
  run();
  EXPECT_EQ(order, expected);
  run();
  EXPECT_EQ(order, expected);
  for (Variable w : {w1, w2, w3, shared, unused}) w.on_grad_ready({});  // each callback holds its own leaf
}

TEST(Engine, ParametersAreReadyBeforeTheInputOfTheirLayer) {
  std::vector<std::string> order;
  Variable x(random_tensor({2, 3}, 1), true);
  Variable w(random_tensor({4, 3}, 2), true);
  Variable b(random_tensor({4}, 3), true);
  x.on_grad_ready([&] { order.emplace_back("x"); });
  w.on_grad_ready([&] { order.emplace_back("w"); });
  b.on_grad_ready([&] { order.emplace_back("b"); });
  Variable loss = sum(linear(x, w, b));
  loss.backward();
  EXPECT_EQ(order, (std::vector<std::string>{"w", "b", "x"}));
}

TEST(Engine, AThrowingCallbackLeavesNoCountsBehind) {
  Variable w = leaf({1});
  w.on_grad_ready([] { throw std::runtime_error("no room"); });
  Variable y = sum(add(scale(w, 2), scale(w, 3)));
  EXPECT_EQ(text_of<std::runtime_error>([&] { y.backward(); }), "no room");
  w.on_grad_ready({});
  w.zero_grad();
  Variable again = sum(add(scale(w, 2), scale(w, 3)));
  again.backward();
  EXPECT_EQ(w.grad().item(), 5);
}

TEST(Engine, SavedMemoryGoesBack) {
  const std::size_t baseline = cpu_allocator().live_bytes();
  {
    Variable w(random_tensor({50, 40}, 1), true);
    const Variable x(random_tensor({30, 40}, 2));
    const Variable h = linear(x, w, {}, Activation::Relu);
    Variable loss = mse_loss(relu(h), Tensor::zeros({30, 50}, DType::Float64));
    loss.backward();
  }
  EXPECT_EQ(cpu_allocator().live_bytes(), baseline);
  {
    Variable w(random_tensor({50, 40}, 1), true);
    const Variable never_run = mean(mul(w, relu(w)));
  }
  EXPECT_EQ(cpu_allocator().live_bytes(), baseline);
}

TEST(Engine, BackwardFreesWhileTheResultIsKept) {
  Variable w(random_tensor({50, 40}, 1), true);
  w.set_grad_memory(Tensor::zeros(w.shape(), DType::Float64));
  Variable loss = sum(mul(scale(w, 2), scale(w, 3)));
  const std::size_t recorded = cpu_allocator().live_bytes();
  loss.backward();
  EXPECT_LE(cpu_allocator().live_bytes(), recorded - 2 * CachingAllocator::block_size(50 * 40 * 8));
}

TEST(Engine, ADeepChainRunsAndDiesWithoutRecursion) {
  constexpr int kDepth = 200'000;
  Variable w = leaf({1});
  Variable y = w;
  for (int i = 0; i < kDepth; ++i) y = add(y, w);
  {
    Variable never_run = w;
    for (int i = 0; i < kDepth; ++i) never_run = scale(never_run, 1);
  }
  y.backward();
  EXPECT_EQ(w.grad().item(), kDepth + 1);
}

TEST(Engine, NoGradRecordsNothingAndEnds) {
  Variable w = leaf({1});
  {
    const NoGrad outer;
    {
      const NoGrad inner;
      EXPECT_FALSE(grad_enabled());
    }
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(scale(w, 2).requires_grad());
    std::thread([] { EXPECT_TRUE(grad_enabled()); }).join();
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(scale(w, 2).requires_grad());
  EXPECT_FALSE(scale(w, 2).detach().requires_grad());
}

TEST(Engine, ThreadsRunTheirOwnGraphs) {
  tutti::test::in_threads(3, [](int rank) {
    Variable w(random_tensor({8, 8}, static_cast<std::uint64_t>(rank)), true);
    for (int step = 0; step < 50; ++step) {
      w.zero_grad();
      Variable loss = sum(matmul(w, relu(w)));
      loss.backward();
    }
    EXPECT_TRUE(w.has_grad());
  });
}

TEST(Variable, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Variable(Tensor{}), std::invalid_argument);
  EXPECT_THROW(Variable(Tensor::zeros({1}, DType::Int64), true), std::invalid_argument);
  EXPECT_THROW(Variable().data(), std::logic_error);
  Variable w = leaf({1});
  EXPECT_THROW(scale(w, 1).grad(), std::logic_error);
  EXPECT_FALSE(scale(w, 1).has_grad());
  EXPECT_FALSE(scale(w, 1).is_leaf());
}

// Nodes that break the contract of node.h: the engine names them.
struct ForgetfulNode final : Node {
  const char* name() const override { return "forgetful"; }
  void release() override {}
  void backward(Tensor, InputGradients&) override {}
};

struct MisshapenNode final : Node {
  const char* name() const override { return "misshapen"; }
  void release() override {}
  void backward(Tensor, InputGradients& inputs) override { inputs.pass(0, Tensor::zeros({7})); }
};

struct EagerNode final : Node {
  const char* name() const override { return "eager"; }
  void release() override {}
  void backward(Tensor grad, InputGradients& inputs) override {
    inputs.pass(0, grad);
    inputs.pass(0, grad);
  }
};

TEST(Engine, NamesAnOperationThatBreaksItsContract) {
  const auto run = [](std::shared_ptr<Node> node) {
    Variable w = leaf({1});
    Variable y = recorded(Tensor::zeros({1}, DType::Float64), std::move(node), {&w});
    return text_of<std::logic_error>([&] { y.backward(); });
  };
  EXPECT_EQ(run(std::make_shared<ForgetfulNode>()), "the backward of forgetful did not deliver every gradient it owes");
  EXPECT_EQ(run(std::make_shared<MisshapenNode>()),
            "the backward of misshapen delivered float32 (7) for input 0, which is float64 (1)");
  EXPECT_EQ(run(std::make_shared<EagerNode>()), "the backward of eager delivered the gradient of input 0 twice");
}

}  // namespace
}  // namespace tutti::tensor::test
