// Linear layers that take their gradients over all ranks. Whole trainings: reproducible_test.cc.
#include <gtest/gtest.h>
#include <tutti/nn/linear.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/trainer/data_parallel/shared_batch.h>

#include <cmath>
#include <latch>

namespace tutti::trainer {
namespace {

using tensor::Variable;

constexpr std::int64_t kSamples = 7;

nn::Linear large_layer() {
  tensor::Mt19937 generator(0);
  return nn::Linear(40, 30, generator);
}

/// Backward of every `step`-th sample from `first`, up to `end`.
void backward(nn::Linear& layer, std::int64_t first, std::int64_t end, std::int64_t step) {
  const std::int64_t rows = std::max<std::int64_t>(0, (end - first + step - 1) / step);
  const auto x = numbered({rows, 40}, [&](auto i) { return std::sin((first + i / 40 * step) * 40 + i % 40); });
  sum(layer.forward(Variable(x), tensor::Activation::Relu)).backward();
}

/// The weight's gradient, of which each rank has some rows, as one; the step in micro-batches of `part` samples a rank.
Values gradient_on(int ranks, std::int64_t part) {
  std::vector<Values> parts(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](comm::ProcessGroup& group) {
    nn::Linear layer = large_layer();
    join_linear_layers(layer, group, kSamples, part);
    for (std::int64_t begin = 0; begin < kSamples; begin += part * ranks) {
      backward(layer, begin + group.rank(), std::min(kSamples, begin + part * ranks), ranks);
    }
    parts[static_cast<std::size_t>(group.rank())] = values_of(layer.weight().grad());
  });
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    for (std::size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[rank][i];
  }
  return parts[0];
}

TEST(SharedLinear, GradientsAreTheBitsOfOneRankForAnyRanksAndMicroBatches) {
  const Values whole = gradient_on(1, kSamples);
  for (const int ranks : {1, 2, 3, 8, 31}) {
    for (const std::int64_t part : {1, 2, 7}) EXPECT_EQ(gradient_on(ranks, part), whole) << ranks << " " << part;
  }
}

TEST(SharedLinear, ARankThatNeverComesIsNamed) {
  std::latch over(1);
  test::run_ranks_to_failure(2,
                             [&](comm::ProcessGroup& group) {
                               nn::Linear layer = large_layer();
                               join_linear_layers(layer, group, 2, 0);
                               if (group.rank() == 1) return over.wait();
                               const std::string text = error_of([&] { backward(layer, 0, 2, 2); });
                               over.count_down();
                               test::expect_parts(text, {"timed out after 0.3 s of waiting for rank 1"});
                             },
                             {.group = {.timeout = std::chrono::milliseconds(300)}});
}

TEST(SharedLinear, MoreRowsThanAgreedAreRefused) {
  test::run_ranks(2, [&](comm::ProcessGroup& group) {
    nn::Linear layer = large_layer();
    join_linear_layers(layer, group, 4, 1);
    test::expect_parts(error_of([&] { backward(layer, 0, 2, 1); }), {"linear: a holder", "has 2 rows, and may have 1"});
  });
}

}  // namespace
}  // namespace tutti::trainer
