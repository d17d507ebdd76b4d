// Ring all_gather_v: the ring all_gather (ring.cc) with blocks of different lengths.
//
// Idea: every block travels once around the ring, each rank keeps a copy and passes it on, segment by segment. A rank
// that has nothing to contribute still passes on what the others have.
//
// Nomenclature: p ranks; c(r) elements of rank r (Problem::counts), C of all ranks; right = rank + 1, left = rank - 1
// (mod p); hop t = 0 .. p - 2.
//
// Steps:          p - 1 hops
// Bytes sent:     C - c(right) elements a rank: the least possible for a ring
// Memory:         none beyond the caller's buffers
// Determinism:    nothing is computed.
// Source:         Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69
//                 (2009).
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {

Schedule ring_all_gather_v(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int right = (problem.rank + 1) % p;
  const int left = (problem.rank - 1 + p) % p;
  const auto block = [&](int rank) {
    const int owner = (rank % p + p) % p;
    return segments({block_offset(problem, owner), problem.counts[static_cast<std::size_t>(owner)]},
                    problem.segment_count);
  };
  const auto own = segments({0, problem.counts[static_cast<std::size_t>(problem.rank)]}, problem.segment_count);

  std::vector<Builder::Index> arrived;  // the block that the next hop passes on, by segments
  for (int t = 0; t < p - 1; ++t) {
    const auto outgoing = block(problem.rank - t);
    const auto incoming = block(problem.rank - 1 - t);
    std::vector<Builder::Index> receives;
    for (std::size_t s = 0; s < std::max(outgoing.size(), incoming.size()); ++s) {
      if (s < outgoing.size() && t == 0) b.send(right, in(own[s]));
      if (s < outgoing.size() && t > 0) b.send(right, out(outgoing[s]), {arrived[s]});
      if (s < incoming.size()) receives.push_back(b.recv(left, out(incoming[s])));
    }
    arrived = std::move(receives);
  }
  const auto home = block(problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(home[s]), in(own[s]));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
