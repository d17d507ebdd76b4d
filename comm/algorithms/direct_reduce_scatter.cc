// Direct: reduce_scatter in one step. Every rank sends each other rank its block, straight from Input.
//
// Idea: no message waits for another; a rank adds what comes in the order of the ranks, itself in its turn. Best for
// few ranks and small blocks, where the number of steps counts, not that of messages.
//
// Nomenclature: p ranks, n elements per rank (Input holds p blocks of n).
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

Schedule direct_reduce_scatter(const Problem& problem) {
  Builder b("direct");
  const int p = problem.world_size;
  const std::size_t n = problem.count;
  const auto parts = segments({0, n}, problem.segment_count);
  const auto mine = [&](int block, const Range& part) {
    return in({static_cast<std::size_t>(block) * n + part.offset, part.count});
  };
  for (int distance = 1; distance < p; ++distance) {  // not all to rank 0 first
    const int peer = (problem.rank + distance) % p;
    for (const Range& part : parts) b.send(peer, mine(peer, part));
  }
  for (const Range& part : parts) {
    Builder::After done;
    for (int rank = 0; rank < p; ++rank) {
      if (rank == problem.rank) {
        const Slice own = mine(rank, part);
        done = {rank == 0 ? b.copy(out(part), own) : b.reduce(out(part), own, false, done)};
      } else {
        done = {rank == 0 ? b.recv(rank, out(part)) : b.recv_reduce(rank, out(part), false, done)};
      }
    }
  }
  return b.finish();
}

}  // namespace tutti::comm::algorithms
