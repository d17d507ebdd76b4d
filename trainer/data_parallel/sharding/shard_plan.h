// Which rank owns which elements of each bucket, where optimizer state is spread over ranks. Pure functions: the same
// on every rank.
#pragma once

#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <cstddef>
#include <vector>

namespace tutti::trainer {

/// Elements of each rank's shard: the same for all, and whole cache lines. The last shards may reach beyond the end of
/// the bucket, or lie there.
std::size_t shard_size(const Bucket& bucket, int ranks);

/// A run of elements of one parameter that one rank owns.
struct ShardPiece {
  std::size_t parameter = 0;  // index in registration order
  std::size_t begin = 0;      // in the parameter
  std::size_t count = 0;
  std::size_t at = 0;  // where it begins in the rank's shard
};

/// A rank's shard of a bucket: elements [begin, begin + size), and what of the parameters lies there.
struct Shard {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::vector<ShardPiece> pieces;  // one for each parameter, at most
};
Shard shard_of(const Bucket& bucket, int rank, int ranks);

}  // namespace tutti::trainer
