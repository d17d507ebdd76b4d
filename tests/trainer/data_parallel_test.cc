#include <gtest/gtest.h>
#include <tutti/nn/batch_norm.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tests/trainer/model_on_ranks.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Shape;
using tensor::Tensor;
using tensor::Variable;
using test::run_ranks;
using Parameters = std::vector<Values>;

std::vector<ParameterSize> floats(std::initializer_list<std::size_t> counts) {
  std::vector<ParameterSize> sizes;
  for (const std::size_t count : counts) sizes.push_back({count, DType::Float32});
  return sizes;
}

std::vector<std::size_t> parameters_of(const Bucket& bucket) {
  std::vector<std::size_t> indices;
  for (const BucketSlot& slot : bucket.slots) indices.push_back(slot.parameter);
  return indices;
}

TEST(BucketPlan, ParametersAreDealtInReverseOrderByTypeAndLimit) {
  struct Case {
    const char* why;
    std::vector<ParameterSize> sizes;
    BucketLimits limits;
    std::vector<std::vector<std::size_t>> expected;  // parameters of each bucket
  };
  constexpr auto kDouble = DType::Float64, kSingle = DType::Float32;
  const Case cases[] = {
      {"no parameters, no buckets", {}, {}, {}},
      {"the mlp is one bucket", floats({784 * 50, 50, 50 * 10, 10}), {}, {{3, 2, 1, 0}}},
      {"the first is closed earlier than the rest: 64 bytes each",
       floats({16, 16, 16, 16, 16, 16}),
       {.first_bucket_bytes = 64, .bucket_cap_bytes = 256},
       {{5}, {4, 3, 2, 1}, {0}}},
      {"a cap below the first limit holds for the first bucket too",
       floats({16, 16, 16}),
       {.first_bucket_bytes = 1 << 20, .bucket_cap_bytes = 64},
       {{2}, {1}, {0}}},
      {"a big weight travels with the bias before it: the autoencoder's four layers",
       floats({784 * 128, 128, 128 * 128, 128, 128 * 128, 128, 128 * 784, 784}),
       {},
       {{7, 6}, {5, 4, 3, 2, 1, 0}}},
      {"types do not mix, and the bucket of singles is complete first",
       {{4, kDouble}, {4, kSingle}, {4, kSingle}, {4, kDouble}},
       {},
       {{2, 1}, {3, 0}}},
  };
  for (const Case& c : cases) {
    std::vector<std::vector<std::size_t>> found;
    for (const Bucket& bucket : plan_buckets(c.sizes, c.limits)) found.push_back(parameters_of(bucket));
    EXPECT_EQ(found, c.expected) << c.why;
  }
}

TEST(BucketPlan, RefusesALimitOfZero) {
  const auto sizes = floats({1});
  EXPECT_THROW(plan_buckets(sizes, {.first_bucket_bytes = 0, .bucket_cap_bytes = 1}), std::invalid_argument);
  EXPECT_THROW(plan_buckets(sizes, {.first_bucket_bytes = 1, .bucket_cap_bytes = 0}), std::invalid_argument);
}

// Whatever the sizes and limits: each parameter in one place, inside its bucket, aligned, apart from the others.
TEST(BucketPlan, PlacesEveryParameterExactlyOnce) {
  std::uint32_t random = 12345;
  const auto next = [&random](std::uint32_t below) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % below;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<ParameterSize> sizes(1 + next(20));
    for (auto& size : sizes) size = {next(300), next(4) == 0 ? DType::Float64 : DType::Float32};
    const BucketLimits limits{.first_bucket_bytes = 1 + next(2000), .bucket_cap_bytes = 1 + next(4000)};
    std::set<std::size_t> seen;
    for (const Bucket& bucket : plan_buckets(sizes, limits)) {
      std::size_t used = 0;
      for (const BucketSlot& slot : bucket.slots) {
        EXPECT_TRUE(seen.insert(slot.parameter).second);
        EXPECT_EQ(slot.count, sizes[slot.parameter].count);
        EXPECT_EQ(bucket.dtype, sizes[slot.parameter].dtype);
        EXPECT_GE(slot.offset, used);
        EXPECT_EQ(slot.offset * tensor::size_of(bucket.dtype) % 64, 0u);
        used = slot.offset + slot.count;
      }
      EXPECT_EQ(used, bucket.count);
      EXPECT_LT(bucket.slots.back().offset * tensor::size_of(bucket.dtype), limits.bucket_cap_bytes + 64);
    }
    EXPECT_EQ(seen.size(), sizes.size());
  }
}

bool same_bits(const Parameters& a, const Parameters& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  }
  return a.size() == b.size();
}

struct Samples {
  Tensor x;
  Tensor y;
};

/// Rows [begin, end) of an endless made-up data set; row i does not depend on the range.
Samples samples(std::int64_t begin, std::int64_t end) {
  const auto pixel = [&](std::int64_t i) {
    return static_cast<float>(((begin + i / 784) * 31 + i % 784 * 7) % 23) / 23.0F;
  };
  return {numbered({end - begin, 784}, pixel),
          numbered<std::int64_t>({end - begin}, [&](std::int64_t row) { return (begin + row) * 3 % 10; })};
}

constexpr int kSteps = 5;

/// Trains on every rank; rank r takes the rows [bounds[r], bounds[r + 1]) of each step's batch. Returns rank 0's
/// parameters, after having checked that all ranks hold the same bits.
Parameters train(const std::vector<std::int64_t>& bounds, const BucketLimits& limits = {},
                 test::Net net = test::Net::Inproc) {
  const int ranks = static_cast<int>(bounds.size()) - 1;
  std::vector<Parameters> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](comm::ProcessGroup& group) {
              const auto rank = static_cast<std::size_t>(group.rank());
              const auto model = nn::make_model("mlp", 3 + rank);  // other weights on each rank: rank 0's must win
              DataParallel parallel(model, group, {.buckets = limits});
              const auto optimizer = nn::make_sgd(all_parameters(*model), {.learning_rate = 0.1, .momentum = 0.9});
              for (std::int64_t step = 0; step < kSteps; ++step) {
                const Samples part =
                    samples(step * bounds.back() + bounds[rank], step * bounds.back() + bounds[rank + 1]);
                optimizer->zero_grad();
                const Variable loss = cross_entropy(parallel.forward(Variable(part.x)), part.y);
                parallel.backward(loss, static_cast<double>(part.x.shape()[0]) / static_cast<double>(bounds.back()));
                parallel.finish();
                optimizer->step();
              }
              results[rank] = values_of(*model);
              EXPECT_EQ(agreed_parameter_sha256(group, *model).size(), 64u);
            },
            {.net = net});
  for (const Parameters& result : results) EXPECT_TRUE(same_bits(result, results[0]));
  return results[0];
}

TEST(DataParallel, AnyNumberOfRanksEqualsOneRankOnTheJoinedBatch) {
  const Parameters one = train({0, 24});
  EXPECT_LT(largest_difference(train({0, 12, 24}), one), 1e-5F);
  EXPECT_LT(largest_difference(train({0, 8, 16, 24}), one), 1e-5F);
  EXPECT_LT(largest_difference(train({0, 6, 12, 18, 24}), one), 1e-5F);
  EXPECT_LT(largest_difference(train({0, 12, 24}, {}, test::Net::Tcp), one), 1e-5F);
}

TEST(DataParallel, UnevenShareOfTheBatchIsWeightedByItsSamples) {
  EXPECT_LT(largest_difference(train({0, 5, 24}), train({0, 24})), 1e-5F);
  EXPECT_LT(largest_difference(train({0, 1, 2, 24}), train({0, 24})), 1e-5F);
}

TEST(DataParallel, SeveralBucketsGiveTheResultOfOne) {
  const BucketLimits small{.first_bucket_bytes = 64, .bucket_cap_bytes = 4096};
  const BucketLimits huge{.first_bucket_bytes = 1 << 24, .bucket_cap_bytes = 1 << 24};
  EXPECT_LT(largest_difference(train({0, 12, 24}, small), train({0, 12, 24}, huge)), 1e-6F);
  EXPECT_LT(largest_difference(train({0, 8, 16, 24}, small, test::Net::Tcp), train({0, 8, 16, 24}, huge)), 1e-6F);
}

// Averaging the ranks' first weights would shrink their variance; flashlight did that once.
TEST(DataParallel, EveryRankStartsFromRank0sOwnWeights) {
  const Parameters original = values_of(*nn::make_model("mlp", 3));
  std::vector<Parameters> after(3);
  run_ranks(3, [&](comm::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const auto model = nn::make_model("mlp", 3 + rank);
    const DataParallel parallel(model, group);
    after[rank] = values_of(*model);
  });
  for (const Parameters& values : after) EXPECT_TRUE(same_bits(values, original));
}

// Running statistics follow each rank's own samples; rank 0's are everybody's afterwards, and are not averaged.
TEST(DataParallel, BuffersBecomeThoseOfRank0) {
  run_ranks(3, [&](comm::ProcessGroup& group) {
    const auto model = std::make_shared<nn::BatchNorm2d>(2);
    DataParallel parallel(model, group);
    Tensor x = Tensor::full({1, 1, 2, 2}, 10.0 * (group.rank() + 1));
    (void)parallel.forward(Variable(x));
    EXPECT_FLOAT_EQ(model->named_buffers()[0].second.data<float>()[0], static_cast<float>(group.rank() + 1));
    parallel.share_buffers();
    EXPECT_FLOAT_EQ(model->named_buffers()[0].second.data<float>()[1], 1);
    EXPECT_EQ(model->named_buffers()[2].second.item(), 1);
  });
}

TEST(DataParallel, OneRankTakesNoBuckets) {
  run_ranks(1, [&](comm::ProcessGroup& group) {
    const auto model = nn::make_model("mlp", 0);
    DataParallel parallel(model, group);
    EXPECT_TRUE(parallel.buckets().empty());
    const Samples batch = samples(0, 4);
    parallel.backward(cross_entropy(parallel.forward(Variable(batch.x)), batch.y), 1.0);
    parallel.finish();
    EXPECT_TRUE(model->named_parameters()[0].second.has_grad());
  });
}

TEST(DataParallel, GradientsLieInBucketMemory) {
  run_ranks(2, [&](comm::ProcessGroup& group) {
    const auto model = nn::make_model("mlp", 0);
    DataParallel parallel(model, group);
    ASSERT_EQ(parallel.buckets().size(), 1u);
    const Samples batch = samples(0, 4);
    parallel.backward(cross_entropy(parallel.forward(Variable(batch.x)), batch.y), 0.5);
    parallel.finish();
    const auto parameters = model->named_parameters();
    for (const auto& [name, parameter] : parameters) {
      EXPECT_TRUE(parameter.grad().shares_storage(parameters[0].second.grad())) << name;
    }
  });
}

TEST(DataParallel, DifferentModelsAreNamedOnEveryRank) {
  const auto texts = errors_of(3, [](comm::ProcessGroup& group) {
    const auto hidden = group.rank() == 2 ? 21 : 20;
    tensor::Mt19937 generator(0);
    const auto model = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Linear>(784, hidden, generator), std::make_shared<nn::Linear>(hidden, 10, generator)});
    const DataParallel parallel(model, group);
  });
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  test::expect_parts(texts[0],
                     {"rank 2 built another model than rank 0",
                      "rank 0 has parameter \"0.weight\" float32 (20, 784), rank 2 has parameter \"0.weight\" "
                      "float32 (21, 784)"});
}

TEST(DataParallel, UnusedParametersAreNamed) {
  for (const std::size_t cap : {std::size_t{1} << 20, std::size_t{64}}) {
    const auto texts = errors_of(2, [cap](comm::ProcessGroup& group) {
      DataParallel parallel(std::make_shared<HalfUsed>(), group,
                            {.buckets = {.first_bucket_bytes = cap, .bucket_cap_bytes = cap}});
      const Samples batch = samples(0, 4);
      parallel.backward(cross_entropy(parallel.forward(Variable(batch.x)), batch.y), 0.5);
      parallel.finish();
    });
    for (const std::string& text : texts) {
      test::expect_parts(text, {"backward did not reach \"idle.weight\", \"idle.bias\""});
    }
  }
}

TEST(DataParallel, SecondBackwardBeforeFinishIsAnError) {
  const auto texts = errors_of(2, [](comm::ProcessGroup& group) {
    DataParallel parallel(nn::make_model("mlp", 0), group);
    const Samples batch = samples(0, 4);
    for (int i = 0; i < 2; ++i) {
      parallel.backward(cross_entropy(parallel.forward(Variable(batch.x)), batch.y), 0.5);
    }
  });
  for (const std::string& text : texts) test::expect_parts(text, {"a second backward before finish()"});
}

// An exception between backward and finish, with buckets on their way: nobody hangs, nothing is written after free.
TEST(DataParallel, AStepGivenUpOnOneRankEndsOnAll) {
  const auto texts = errors_of(2, [](comm::ProcessGroup& group) {
    DataParallel parallel(nn::make_model("mlp", 0), group,
                          {.buckets = {.first_bucket_bytes = 64, .bucket_cap_bytes = 64}});
    const Samples batch = samples(0, 4);
    parallel.backward(cross_entropy(parallel.forward(Variable(batch.x)), batch.y), 0.5);
    if (group.rank() == 1) throw std::runtime_error("the reader of rank 1 broke");
    parallel.finish();
  });
  test::expect_parts(texts[0], {"given up"});
  EXPECT_EQ(texts[1], "the reader of rank 1 broke");
}

TEST(ModelCheck, RanksWithOtherBitsAreNamed) {
  const auto texts = errors_of(4, [](comm::ProcessGroup& group) {
    const auto model = nn::make_model("mlp", 0);
    auto parameters = model->named_parameters();
    if (group.rank() % 2 == 1) parameters[1].second.data().data<float>()[7] += 1e-6F;
    agreed_parameter_sha256(group, *model);
  });
  for (const std::string& text : texts) {
    test::expect_parts(text, {"those of rank(s) 1, 3 differ from rank 0's"});
  }
}

}  // namespace
}  // namespace tutti::trainer
