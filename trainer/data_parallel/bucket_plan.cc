#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

constexpr std::size_t kSlotAlignmentBytes = 64;

std::size_t rounded_up(std::size_t count, std::size_t multiple) { return (count + multiple - 1) / multiple * multiple; }

/// The element at which a slot may start in a bucket that holds `used` elements.
std::size_t next_offset(std::size_t used, tensor::DType dtype) {
  return rounded_up(used, kSlotAlignmentBytes / tensor::size_of(dtype));
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketLimits& limits) {
  if (limits.first_bucket_bytes == 0 || limits.bucket_cap_bytes == 0) {
    throw std::invalid_argument("a bucket limit of 0 bytes holds no gradient; use at least 1");
  }
  std::vector<Bucket> finished;
  std::map<std::pair<tensor::DType, bool>, Bucket> open;
  const auto limit = [&] {
    return finished.empty() ? std::min(limits.first_bucket_bytes, limits.bucket_cap_bytes) : limits.bucket_cap_bytes;
  };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto [count, dtype, is_whole] = parameters[i];
    Bucket& bucket = open[{dtype, is_whole}];
    bucket.dtype = dtype;
    bucket.is_whole = is_whole;
    const std::size_t offset = next_offset(bucket.count, dtype);
    bucket.slots.push_back({.parameter = i, .offset = offset, .count = count});
    bucket.count = offset + count;
    if (bucket.nbytes() >= limit()) {
      finished.push_back(std::move(bucket));
      open.erase({dtype, is_whole});
    }
  }
  // What is still open is complete when its last slot (the earliest parameter) is: later slots come first.
  std::vector<Bucket> rest;
  for (auto& [kind, bucket] : open) rest.push_back(std::move(bucket));
  std::sort(rest.begin(), rest.end(),
            [](const Bucket& a, const Bucket& b) { return a.slots.back().parameter > b.slots.back().parameter; });
  std::move(rest.begin(), rest.end(), std::back_inserter(finished));
  return finished;
}

}  // namespace tutti::trainer
