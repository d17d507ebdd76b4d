// Dissemination: a barrier for any number of ranks.
//
// Idea: in round k rank r tells rank r + 2^k (mod p) that it, and every rank it has heard of, has arrived. What a rank
// has heard of is an unbroken range that ends at itself and doubles every round; after ceil(lg p) rounds it is
// all ranks.
//
// Nomenclature: p ranks; round k has distance 2^k.
//
// Determinism:    nothing is computed.
// Source:         Hensgen, Finkel, Manber: Two algorithms for barrier synchronization. IJPP 17 (1988).
//                 https://doi.org/10.1007/BF01379320
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {

Schedule dissemination_barrier(const Problem& problem) {
  Builder b("dissemination");
  const int p = problem.world_size;
  Builder::After heard;  // the last receive; each receive waits for the one before, so it stands for all of them
  for (int distance = 1; distance < p; distance *= 2) {
    b.send((problem.rank + distance) % p, out({}), heard);
    heard = {b.recv((problem.rank - distance + p) % p, out({}), heard)};
  }
  return b.finish();
}

}  // namespace tutti::comm::algorithms
