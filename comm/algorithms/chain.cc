// Chain: broadcast and reduce of a long vector in segments that follow one another from rank to rank.
//
// Idea: the ranks stand in a row, root first, then root + 1, root + 2, ... (mod p). Broadcast: each passes a segment on
// as soon as it is there, while the next one arrives. Reduce: the segments come the other way, and each rank adds its
// own before it passes them on. Once the row is full every link carries data all the time. With k segments the last
// rank is done after p - 2 + k hops of n/k elements; without segments (segment_count 0, k = 1) nothing overlaps.
//
// Nomenclature: p ranks, n elements, k segments; place = (rank - root) mod p.
//
// Determinism:    reduce computes own (+) what comes from behind, so the operands stand in the order root, root + 1,
//                 ..., root - 1 (mod p): the operator need be associative and commutative, as for the ring. The bits of
//                 a floating point sum depend on p and the root.
// Source:         Pjesivac-Grbovic, Angskun, Bosilca, Fagg, Gabriel, Dongarra: Performance analysis of MPI collective
//                 operations. Cluster Computing 10 (2007), "pipeline". https://doi.org/10.1007/s10586-007-0012-0
#include <tutti/comm/algorithms/tree.h>

namespace tutti::comm::algorithms {
namespace {

Tree row_of(const Problem& problem) {
  const int p = problem.world_size;
  const int place = (problem.rank - problem.root + p) % p;
  Tree row;
  if (place > 0) row.parent = (problem.rank - 1 + p) % p;
  if (place < p - 1) row.children = {{(problem.rank + 1) % p, false}};
  return row;
}

}  // namespace

Schedule chain_broadcast(const Problem& problem) { return broadcast_along({row_of(problem)}, problem, "chain"); }
Schedule chain_reduce(const Problem& problem) { return reduce_along({row_of(problem)}, problem, "chain"); }

}  // namespace tutti::comm::algorithms
