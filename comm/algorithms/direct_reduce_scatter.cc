// Direct: reduce_scatter and reduce_scatter_v in one step. Every rank sends each other rank its block, straight from
// Input.
//
// Idea: no message waits for another; a rank adds what comes in the order of the ranks, itself in its turn. Best for
// few ranks and small blocks, where the number of steps counts, not that of messages.
//
// Nomenclature: p ranks, n elements per rank (Input holds p blocks of n; of c(rank) in the v-form).
//
// Steps:          1
// Bytes sent:     n(p - 1) elements a rank, in p - 1 messages to as many peers
// Memory:         none
// Determinism:    every block is ((0 + 1) + 2) + ... + (p - 1): the operator need be associative only. The bits of a
//                 floating point sum depend on p.
// Source:         folklore; "spread-out" in Thakur, Rabenseifner, Gropp: Optimization of collective communication
//                 operations in MPICH. IJHPCA 19 (2005). https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

/// `block(rank)` is the range of that rank's block in Input.
template <typename BlockOf>
Schedule exchange_and_add(const Problem& problem, const BlockOf& block) {
  Builder b("direct");
  const int p = problem.world_size;
  for (int distance = 1; distance < p; ++distance) {  // not all to rank 0 first
    const int peer = (problem.rank + distance) % p;
    for (const Range& part : segments(block(peer), problem.segment_count)) b.send(peer, in(part));
  }
  const Range own = block(problem.rank);
  for (const Range& part : segments(own, problem.segment_count)) {
    const Slice mine = in(part), sum = out({part.offset - own.offset, part.count});
    Builder::After done;
    for (int rank = 0; rank < p; ++rank) {
      if (rank == problem.rank) {
        done = {rank == 0 ? b.copy(sum, mine) : b.reduce(sum, mine, false, done)};
      } else {
        done = {rank == 0 ? b.recv(rank, sum) : b.recv_reduce(rank, sum, false, done)};
      }
    }
  }
  return b.finish();
}

}  // namespace

Schedule direct_reduce_scatter(const Problem& problem) {
  return exchange_and_add(problem, [&](int rank) -> Range {
    return {static_cast<std::size_t>(rank) * problem.count, problem.count};
  });
}

Schedule direct_reduce_scatter_v(const Problem& problem) {
  return exchange_and_add(problem, [&](int rank) -> Range {
    return {block_offset(problem, rank), problem.counts[static_cast<std::size_t>(rank)]};
  });
}

}  // namespace tutti::comm::algorithms
