// The exchange of reproducible training: gradients whose bits do not depend on the number of ranks, on the sizes of
// buckets, or on the transport.
//
// Idea. A step's samples are dealt into a fixed number of shards: position p of the global batch belongs to shard
// p mod 12. Each shard's gradient is a backward pass by itself (DataParallelOptions::passes), so its bits depend on its
// samples only. The sum over shards is then always ((0 + 1) + 2) + ... + 11, element by element.
// With N ranks, N a divisor of 12, the sampler deals position p to rank p mod N; so rank r holds exactly the shards r,
// r + N, r + 2 N, ..., as rows r, r + N, ... of its own batch, and nothing has to be moved before the backward pass.
//
// Exchange of a bucket of n bytes: each rank is responsible for 1 / N of the elements. all_to_all brings it these
// elements of all shards (12 n / N bytes sent per rank, of which 1 / N stays), it adds them in order, and all_gather
// gives everybody the sums (n bytes received). Plain all_reduce sends 2 n.
// Cost besides: 12 / N smaller passes in place of one, and memory for 2 * 12 / N copies of the gradients (one copy for
// a world of one). See also: Villa et al., "Effects of floating-point non-associativity on numerical computations on
// massively multithreaded systems" (2009), for why an order has to be fixed at all.
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <memory>

namespace tutti::trainer {

/// Divisible by 1, 2, 3, 4, 6 and 12: the worlds that can give the same bits.
inline constexpr int kReproducibleShards = 12;

/// To be used with DataParallelOptions::passes = kReproducibleShards / world_size: pass i is shard rank + i N. Throws
/// std::invalid_argument if the world's size does not divide kReproducibleShards. Every rank keeps its buckets in f32
/// or f64.
std::unique_ptr<GradientExchange> make_reproducible_exchange(comm::ProcessGroup& group, const ExchangePlan& plan);

}  // namespace tutti::trainer
