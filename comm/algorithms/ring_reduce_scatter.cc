// Ring reduce_scatter: the first half of the ring all_reduce (ring.cc), from Input to Output.
//
// Idea: block c starts at rank c + 1, travels once around the ring, and every rank adds its own block c as it passes;
// after p - 1 hops it arrives, finished, at rank c. Input is not written, so the sum of a hop is built in Scratch, in
// two places that take turns: one is being sent while the other is being filled.
//
// Nomenclature: p ranks, n elements per rank (Input holds p blocks of n); right = rank + 1, left = rank - 1 (mod p);
// hop t = 0 .. p - 2. Blocks are cut into segments, each with a chain of dependencies of its own.
//
// Steps:          p - 1 hops
// Bytes sent:     n(p - 1) elements a rank: the least possible
// Memory:         Scratch[2n]; [n] for p = 3, none for p < 3
// Determinism:    block c is ((c+1) + (c+2)) + ... + c, computed once. The order depends on p and c, so the operator
//                 must be commutative (up to rounding), and the bits of a floating point sum depend on p.
// Source:         Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69
//                 (2009).
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {

Schedule ring_reduce_scatter(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int hops = p - 1;
  const std::size_t n = problem.count;
  const int right = (problem.rank + 1) % p;
  const int left = (problem.rank - 1 + p) % p;
  const auto parts = segments({0, n}, problem.segment_count);
  const auto mine = [&](int block, const Range& part) {
    return in({static_cast<std::size_t>((block % p + p) % p) * n + part.offset, part.count});
  };
  /// Where hop t builds its sum.
  const auto sum = [&](int t, const Range& part) {
    return t == hops - 1 ? out(part) : scratch({static_cast<std::size_t>(t % 2) * n + part.offset, part.count});
  };

  for (const Range& part : parts) {
    if (p == 1) b.copy(out(part), mine(0, part));
  }
  std::vector<Builder::After> sent(parts.size());    // what the previous hop sent, and so set free
  std::vector<Builder::After> summed(parts.size());  // what this hop sends
  for (int t = 0; t < hops; ++t) {
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const Slice outgoing = t == 0 ? mine(problem.rank - 1, parts[s]) : sum(t - 1, parts[s]);
      const auto send = b.send(right, outgoing, summed[s]);
      const auto received = b.recv(left, sum(t, parts[s]), sent[s]);
      summed[s] = {b.reduce(sum(t, parts[s]), mine(problem.rank - 2 - t, parts[s]), false, {received})};
      sent[s] = {send};
    }
  }
  return b.finish(n * static_cast<std::size_t>(std::clamp(hops - 1, 0, 2)));
}

}  // namespace tutti::comm::algorithms
