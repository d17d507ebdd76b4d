// The gradient exchange of a sharded optimizer: every rank receives the sum of the part that it will update, and only
// that, which is half of what all_reduce moves; the other half are the updated parameters (sharded_optimizer.h).
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

namespace tutti::trainer {

/// reduce_scatter, asynchronous for all buckets but the last. After finish() the elements of shard_of() are the sum
/// over ranks, and the others are this rank's own still: nobody but a ShardedOptimizer can use such gradients.
std::unique_ptr<GradientExchange> make_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

/// The same with exact sums, as exact_exchange.h has them.
std::unique_ptr<GradientExchange> make_exact_shard_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

}  // namespace tutti::trainer
