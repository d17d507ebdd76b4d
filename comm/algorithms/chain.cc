// Chain: broadcast of a long vector in segments that follow one another from rank to rank.
//
// Idea: the ranks stand in a row, root first, then root + 1, root + 2, ... (mod p). Each passes a segment on as soon as
// it is there, while the next one arrives: once the row is full every link carries data all the time. With k segments
// the last rank has everything after p - 2 + k hops of n/k elements; without segments (segment_count 0, k = 1) nothing
// overlaps.
//
// Nomenclature: p ranks, n elements, k segments.
//
// Steps:          p - 2 + k hops
// Bytes sent:     n elements a rank, none at the end of the row: the least possible for a rank that is not the root
// Memory:         none beyond the caller's buffers
// Determinism:    nothing is computed.
// Source:         Pjesivac-Grbovic, Angskun, Bosilca, Fagg, Gabriel, Dongarra: Performance analysis of MPI collective
//                 operations. Cluster Computing 10 (2007), "pipeline". https://doi.org/10.1007/s10586-007-0012-0
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {

Schedule chain_broadcast(const Problem& problem) {
  Builder b("chain");
  const int p = problem.world_size;
  const int place = (problem.rank - problem.root + p) % p;
  const int before = (problem.rank - 1 + p) % p;
  const int behind = (problem.rank + 1) % p;
  for (const Range& part : segments({0, problem.count}, problem.segment_count)) {
    Builder::After arrived;
    if (place > 0) arrived = {b.recv(before, out(part))};
    if (place < p - 1) b.send(behind, out(part), arrived);
  }
  return b.finish();
}

}  // namespace tutti::comm::algorithms
