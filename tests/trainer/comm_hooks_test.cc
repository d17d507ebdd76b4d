// Each hook against the plain computation of what it promises.
#include <gtest/gtest.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/hooks/comm_hooks.h>
#include <tutti/trainer/data_parallel/model_check.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;
using tensor::Variable;

const std::vector<Shape> kShapes = {{12, 40}, {40}, {8, 3, 10}, {4, 6}, {7}};

ExchangePlan plan_of(const std::vector<Shape>& shapes, std::size_t bucket_bytes = 1024) {
  std::vector<ParameterSize> sizes;
  for (const Shape& shape : shapes) sizes.push_back({.count = static_cast<std::size_t>(shape.numel())});
  return {plan_buckets(sizes, {.first_bucket_bytes = bucket_bytes, .bucket_cap_bytes = bucket_bytes}), shapes};
}

/// A number between -1 and 1 that looks like chance.
float noise(std::size_t rank, std::size_t step, std::size_t parameter, std::size_t i) {
  const double at = std::sin(static_cast<double>(((rank * 31 + step) * 17 + parameter) * 1009 + i) * 12.9898) * 43758.5;
  return static_cast<float>(2 * (at - std::floor(at)) - 1);
}

using Gradient = std::function<float(std::size_t rank, std::size_t step, std::size_t parameter, std::size_t i)>;

/// By step, by parameter.
using Sums = std::vector<std::vector<Values>>;

struct Outcome {
  Sums sums;                                        // what the exchange made, the same on all ranks
  std::vector<std::map<std::string, Values>> left;  // by rank: its state at the end
};

/// `steps` exchanges on `ranks` ranks. Fails unless all ranks end with the same bits in every step.
Outcome exchange(const CommHookOptions& hook, int ranks, std::size_t steps, const Gradient& gradient,
                 const std::vector<Shape>& shapes = kShapes, std::size_t bucket_bytes = 1024) {
  std::vector<Sums> sums(static_cast<std::size_t>(ranks), Sums(steps, std::vector<Values>(shapes.size())));
  Outcome outcome;
  outcome.left.resize(sums.size());
  test::run_ranks(ranks, [&](comm::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const ExchangePlan plan = plan_of(shapes, bucket_bytes);
    const auto exchange = make_comm_hook(hook)(group, plan);
    EXPECT_EQ(exchange->name(), hook.hook);
    std::vector<Tensor> buckets;
    for (const Bucket& bucket : plan.buckets)
      buckets.push_back(Tensor::zeros({static_cast<std::int64_t>(bucket.count)}));
    for (std::size_t step = 0; step < steps; ++step) {
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        for (const BucketSlot& slot : plan.buckets[b].slots) {
          float* const to = buckets[b].data<float>() + slot.offset;
          for (std::size_t i = 0; i < slot.count; ++i) to[i] = gradient(rank, step, slot.parameter, i);
        }
        exchange->begin(b, buckets[b]);
      }
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        exchange->finish(b, buckets[b]);
        for (const BucketSlot& slot : plan.buckets[b].slots) {
          const float* const from = buckets[b].data<float>() + slot.offset;
          sums[rank][step][slot.parameter].assign(from, from + slot.count);
        }
      }
    }
    for (const auto& [name, tensor] : exchange->state()) outcome.left[rank][name] = values_of(tensor);
  });
  for (const Sums& other : sums) EXPECT_EQ(other, sums[0]) << hook.hook << ": ranks must end with the same numbers";
  outcome.sums = sums[0];
  return outcome;
}

/// Over the ranks, in their order.
Values plain_sum(std::size_t ranks, std::size_t step, std::size_t parameter, const Gradient& gradient) {
  Values sum(static_cast<std::size_t>(kShapes[parameter].numel()));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank) sum[i] += gradient(rank, step, parameter, i);
  }
  return sum;
}

template <typename T>
void expect_rounded_sums(const char* hook) {
  const Outcome two = exchange({.hook = hook}, 2, 2, noise);
  const Outcome three = exchange({.hook = hook}, 3, 1, noise);
  const double unit = std::is_same_v<T, comm::BFloat16> ? 0x1p-8 : 0x1p-11;
  for (std::size_t p = 0; p < kShapes.size(); ++p) {
    for (std::size_t i = 0; i < two.sums[1][p].size(); ++i) {
      const auto rounded = [&](std::size_t rank) { return static_cast<float>(T(noise(rank, 1, p, i))); };
      ASSERT_EQ(two.sums[1][p][i], static_cast<float>(T(rounded(0) + rounded(1))));
      // Three roundings of parts below 1, two of sums below 3.
      ASSERT_NEAR(three.sums[0][p][i], plain_sum(3, 0, p, noise)[i], 9 * unit);
    }
  }
}

TEST(CommHooks, Bf16RoundsEachPartAndEachSum) { expect_rounded_sums<comm::BFloat16>("bf16"); }

TEST(CommHooks, Fp16RoundsEachPartAndEachSum) { expect_rounded_sums<comm::Half>("fp16"); }

TEST(LargestMagnitudes, EqualsSorting) {
  Values values(5000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(noise(0, 0, 0, i), static_cast<int>(i % 60) - 30);
  for (std::size_t i = 0; i < 900; ++i) values[i * 5] = i % 2 == 0 ? 0.25F : -0.25F;  // many equal ones
  for (const std::size_t wanted : {std::size_t{0}, std::size_t{1}, std::size_t{77}, std::size_t{1500}, values.size()}) {
    std::vector<std::int32_t> expected(values.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
      return std::abs(values[static_cast<std::size_t>(a)]) > std::abs(values[static_cast<std::size_t>(b)]);
    });
    expected.resize(wanted);
    std::sort(expected.begin(), expected.end());
    std::vector<std::int32_t> found(wanted);
    largest_magnitudes(values, found);
    ASSERT_EQ(found, expected) << wanted;
  }
}

TEST(LargestMagnitudes, NanAndInfinityAreTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Values values = {1, -kInfinity, 0, std::numeric_limits<float>::quiet_NaN(), 3, kInfinity};
  std::vector<std::int32_t> found(2);
  largest_magnitudes(values, found);
  EXPECT_EQ(found, (std::vector<std::int32_t>{1, 3}));
  std::vector<std::int32_t> too_many(7);
  EXPECT_THROW(largest_magnitudes(values, too_many), std::invalid_argument);
}

TEST(CommHooks, TopKOfEverythingIsThePlainSum) {
  const Outcome outcome = exchange({.hook = "topk", .topk_density = 1}, 3, 2, noise);
  for (std::size_t p = 0; p < kShapes.size(); ++p) EXPECT_EQ(outcome.sums[1][p], plain_sum(3, 1, p, noise)) << p;
  EXPECT_TRUE(outcome.left[0].empty());
}

/// What a rank sends of `pending`, which keeps the rest: straightforwardly, by sorting.
Values take_largest(Values& pending, double density) {
  std::vector<std::size_t> order(pending.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(pending[a]) > std::abs(pending[b]); });
  Values sent(pending.size());
  const auto taken = static_cast<std::size_t>(std::ceil(density * static_cast<double>(pending.size())));
  for (std::size_t i = 0; i < taken; ++i) std::swap(sent[order[i]], pending[order[i]]);
  return sent;
}

TEST(CommHooks, TopKSendsTheLargestAndKeepsTheRest) {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kSteps = 6;
  constexpr double kDensity = 0.07;
  const Outcome outcome = exchange({.hook = "topk", .topk_density = kDensity}, kRanks, kSteps, noise);
  for (std::size_t p = 0; p < kShapes.size(); ++p) {
    const auto count = static_cast<std::size_t>(kShapes[p].numel());
    const double density = kShapes[p].rank() < 2 ? 1 : kDensity;
    std::vector<Values> pending(kRanks, Values(count));
    for (std::size_t step = 0; step < kSteps; ++step) {
      Values expected(count);
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        for (std::size_t i = 0; i < count; ++i) pending[rank][i] += noise(rank, step, p, i);
        const Values sent = take_largest(pending[rank], density);
        for (std::size_t i = 0; i < count; ++i) expected[i] += sent[i];
      }
      EXPECT_EQ(outcome.sums[step][p], expected) << "parameter " << p << ", step " << step;
    }
    for (std::size_t rank = 0; rank < kRanks && density < 1; ++rank) {
      EXPECT_EQ(outcome.left[rank].at(std::to_string(p) + ".error"), pending[rank]);
    }
  }
}

// Within DataParallel: several buckets, questions that travel along, several transports; parameters stay equal.
TEST(CommHooks, TrainAModelOnSeveralRanks) {
  for (const CommHookOptions& hook :
       {CommHookOptions{.hook = "bf16"}, {.hook = "fp16"}, {.hook = "topk", .topk_density = 0.2}}) {
    for (const test::Net net : {test::Net::Shm, test::Net::Tcp}) {
      test::run_ranks(3,
                      [&](comm::ProcessGroup& group) {
                        const auto model = nn::make_model("mlp", 1);
                        DataParallel parallel(model, group,
                                              {.buckets = {.first_bucket_bytes = 4096, .bucket_cap_bytes = 4096},
                                               .exchange = make_comm_hook(hook)});
                        const auto optimizer = nn::make_sgd(all_parameters(*model), {.learning_rate = 0.1});
                        double first = 0;
                        double last = 0;
                        for (int step = 0; step < 15; ++step) {
                          const Tensor x = numbered({4, 784}, [](std::int64_t i) { return i % 784 % 10 == i / 784; });
                          const Tensor y = numbered<std::int64_t>({4}, [](std::int64_t i) { return i; });
                          optimizer->zero_grad();
                          const Variable loss = cross_entropy(parallel.forward(Variable(x)), y);
                          parallel.backward(loss, 1.0 / 3);
                          if (step == 3 && group.rank() == 1) parallel.ask(Request::Stop);
                          parallel.finish();
                          EXPECT_EQ(parallel.asked(Request::Stop), step == 3 ? 1 : 0) << hook.hook;
                          optimizer->step();
                          (step == 0 ? first : last) = loss.data().item();
                        }
                        EXPECT_LT(last, 0.5 * first) << hook.hook;
                        EXPECT_EQ(agreed_parameter_sha256(group, *model).size(), 64u);
                      },
                      {.net = net});
    }
  }
}

TEST(CommHooks, WhatCannotBeIsNamed) {
  EXPECT_FALSE(make_comm_hook({.hook = "none"}));
  EXPECT_EQ(error_of([] { (void)make_comm_hook({.hook = "zip"}); }),
            "the comm hook \"zip\" is not known; there are none, bf16, fp16, topk");
  EXPECT_EQ(error_of([] { (void)make_comm_hook({.hook = "topk", .topk_density = 0}); }),
            "the density of topk is 0.000000; it must be above 0, and at most 1");
  test::run_ranks(1, [](comm::ProcessGroup& group) {
    ExchangePlan plan = plan_of({{4, 4}});
    plan.buckets[0].dtype = tensor::DType::Float64;
    EXPECT_EQ(error_of([&] { (void)make_comm_hook({.hook = "bf16"})(group, plan); }),
              "the comm hook bf16 compresses float32, but parameter 0 of the model is float64");
  });
}

}  // namespace
}  // namespace tutti::trainer
