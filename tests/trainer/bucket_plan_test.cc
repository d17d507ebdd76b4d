#include <gtest/gtest.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using tensor::DType;

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

TEST(BucketPlan, MlpIsOneBucketInReverseOrder) {
  const auto plan = plan_buckets(floats({784 * 50, 50, 50 * 10, 10}));
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(parameters_of(plan[0]), (std::vector<std::size_t>{3, 2, 1, 0}));
}

TEST(BucketPlan, NoParametersNoBuckets) { EXPECT_TRUE(plan_buckets({}).empty()); }

TEST(BucketPlan, FirstBucketIsClosedEarlierThanTheRest) {
  const BucketLimits limits{.first_bucket_bytes = 64, .bucket_cap_bytes = 256};
  const auto plan = plan_buckets(floats({16, 16, 16, 16, 16, 16}), limits);  // 64 bytes each
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(parameters_of(plan[0]), (std::vector<std::size_t>{5}));
  EXPECT_EQ(parameters_of(plan[1]), (std::vector<std::size_t>{4, 3, 2, 1}));
  EXPECT_EQ(parameters_of(plan[2]), (std::vector<std::size_t>{0}));
}

TEST(BucketPlan, CapBelowTheFirstLimitHoldsForTheFirstBucketToo) {
  const BucketLimits limits{.first_bucket_bytes = 1 << 20, .bucket_cap_bytes = 64};
  EXPECT_EQ(plan_buckets(floats({16, 16, 16}), limits).size(), 3u);
}

TEST(BucketPlan, ABigWeightTravelsWithTheBiasBeforeIt) {
  // The autoencoder: weight and bias of its four layers.
  const auto plan = plan_buckets(floats({784 * 128, 128, 128 * 128, 128, 128 * 128, 128, 128 * 784, 784}));
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(parameters_of(plan[0]), (std::vector<std::size_t>{7, 6}));
  EXPECT_EQ(parameters_of(plan[1]), (std::vector<std::size_t>{5, 4, 3, 2, 1, 0}));
}

TEST(BucketPlan, TypesDoNotMixAndBucketsEndInTheOrderTheyFillUp) {
  const std::vector<ParameterSize> sizes{
      {4, DType::Float64}, {4, DType::Float32}, {4, DType::Float32}, {4, DType::Float64}};
  const auto plan = plan_buckets(sizes);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].dtype, DType::Float32);  // complete at parameter 1, the float64 bucket only at 0
  EXPECT_EQ(parameters_of(plan[0]), (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(plan[1].dtype, DType::Float64);
  EXPECT_EQ(parameters_of(plan[1]), (std::vector<std::size_t>{3, 0}));
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

}  // namespace
}  // namespace tutti::trainer
