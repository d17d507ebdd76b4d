// The gradient exchange of a sharded optimizer: every rank receives the sum of the part that it will update, and only
// that, which is half of what all_reduce moves; the other half are the updated parameters (sharded_optimizer.h).
#pragma once

#include <tutti/trainer/data_parallel/bucket_plan.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <cstddef>
#include <vector>

namespace tutti::trainer {

/// reduce_scatter, asynchronous for all buckets but the last. After finish() the elements of shard_of() are the sum
/// over ranks, and the others are this rank's own still: nobody but a ShardedOptimizer can use such gradients.
std::unique_ptr<GradientExchange> make_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

/// The same with exact sums, as gradient_exchange.h has them.
std::unique_ptr<GradientExchange> make_exact_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

// Which rank owns which elements of each bucket, where optimizer state is spread over ranks. Pure functions: the same
// on every rank.

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
