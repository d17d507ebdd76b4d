// Bruck: all_gather in the fewest rounds for any number of ranks.
//
// Idea: as in recursive doubling what a rank has doubles each round, but around a ring: rank r holds blocks r, r + 1,
// ..., r + d - 1 (mod p) and fetches the next d from rank r + d, which has just those. The last round fetches what is
// missing. Blocks are kept in Scratch in that order, so that every message is one piece, and put in place at the end.
//
// Nomenclature: p ranks, n elements per rank; Scratch block j belongs to rank (r + j) mod p; d = 1, 2, 4, ...
//
// Steps:          ceil(lg p) rounds
// Bytes sent:     n(p - 1) elements a rank, and one local copy of pn
// Memory:         Scratch[pn]
// Determinism:    nothing is computed.
// Source:         Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport
//                 message-passing systems. IEEE TPDS 8 (1997). https://doi.org/10.1109/71.642949
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {

Schedule bruck_all_gather(const Problem& problem) {
  Builder b("bruck");
  const int p = problem.world_size;
  const int rank = problem.rank;
  const std::size_t n = problem.count;
  const auto pieces = [&](int first_block, int number) {
    return segments({static_cast<std::size_t>(first_block) * n, static_cast<std::size_t>(number) * n},
                    problem.segment_count);
  };

  Fills fills;
  for (const Range& part : segments({0, n}, problem.segment_count)) {
    fills.add(part, b.copy(scratch(part), in(part)));
  }
  for (int distance = 1; distance < p; distance *= 2) {
    const int number = std::min(distance, p - distance);
    for (const Range& part : pieces(0, number)) {
      b.send((rank - distance + p) % p, scratch(part), fills.touching(part));
    }
    for (const Range& part : pieces(distance, number)) {
      fills.add(part, b.recv((rank + distance) % p, scratch(part)));
    }
  }
  for (int j = 0; j < p; ++j) {
    const auto home = pieces((rank + j) % p, 1);
    const auto from = pieces(j, 1);
    for (std::size_t s = 0; s < home.size(); ++s) b.copy(out(home[s]), scratch(from[s]), fills.touching(from[s]));
  }
  return b.finish(static_cast<std::size_t>(p) * n);
}

}  // namespace tutti::comm::algorithms
