#include <tutti/trainer/data_parallel/sharding/shard_plan.h>

#include <algorithm>

namespace tutti::trainer {

std::size_t shard_size(const Bucket& bucket, int ranks) {
  const std::size_t line = 64 / tensor::size_of(bucket.dtype);
  const std::size_t even = (bucket.count + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  return (even + line - 1) / line * line;
}

Shard shard_of(const Bucket& bucket, int rank, int ranks) {
  Shard shard;
  shard.size = shard_size(bucket, ranks);
  shard.begin = static_cast<std::size_t>(rank) * shard.size;
  for (const BucketSlot& slot : bucket.slots) {
    const std::size_t begin = std::max(slot.offset, shard.begin);
    const std::size_t end = std::min(slot.offset + slot.count, shard.begin + shard.size);
    if (begin >= end) continue;
    shard.pieces.push_back(
        {.parameter = slot.parameter, .begin = begin - slot.offset, .count = end - begin, .at = begin - shard.begin});
  }
  return shard;
}

}  // namespace tutti::trainer
