#include <tutti/trainer/data_parallel/sharding/shard_plan.h>

#include <algorithm>
#include <numeric>

namespace tutti::trainer {

std::vector<std::size_t> shard_counts(const Bucket& bucket, int ranks) {
  const std::size_t line = 64 / tensor::size_of(bucket.dtype);
  const std::size_t even = (bucket.count + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  const std::size_t part = (even + line - 1) / line * line;
  std::vector<std::size_t> counts;
  for (std::size_t left = bucket.count; counts.size() < static_cast<std::size_t>(ranks); left -= counts.back()) {
    counts.push_back(std::min(part, left));
  }
  return counts;
}

Shard shard_of(const Bucket& bucket, int rank, int ranks) {
  const auto counts = shard_counts(bucket, ranks);
  Shard shard;
  shard.begin = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  shard.count = counts[static_cast<std::size_t>(rank)];
  for (const BucketSlot& slot : bucket.slots) {
    const std::size_t begin = std::max(slot.offset, shard.begin);
    const std::size_t end = std::min(slot.offset + slot.count, shard.begin + shard.count);
    if (begin >= end) continue;
    shard.pieces.push_back(
        {.parameter = slot.parameter, .begin = begin - slot.offset, .count = end - begin, .at = begin - shard.begin});
  }
  return shard;
}

}  // namespace tutti::trainer
