// Ring reduce_scatter_v: the ring reduce_scatter (ring_reduce_scatter.cc) with blocks of different lengths.
//
// Idea: block c starts at rank c + 1, travels once around the ring, and every rank adds its own block c as it passes;
// after p - 1 hops it arrives, finished, at rank c. Input is not written, so the sum of a hop is built in Scratch, in
// two places that take turns, each as long as the longest block. A rank whose block is empty still passes on the
// others'.
//
// Nomenclature: p ranks; c(r) elements of rank r (Problem::counts), C of all ranks, m the largest c(r); right = rank +
// 1, left = rank - 1 (mod p); hop t = 0 .. p - 2. Segment s of every block begins at the same place within it, so that
// segments of different blocks share Scratch only if their s is equal.
//
// Steps:          p - 1 hops
// Bytes sent:     C - c(rank) elements a rank: the least possible
// Memory:         Scratch[2m]; [m] for p = 3, none for p < 3
// Determinism:    block c is ((c+1) + (c+2)) + ... + c, computed once. The order depends on p and c, so the operator
//                 must be commutative (up to rounding), and the bits of a floating point sum depend on p.
// Source:         Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69
//                 (2009).
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

#include <array>

namespace tutti::comm::algorithms {

Schedule ring_reduce_scatter_v(const Problem& problem) {
  Builder b("ring");
  const int p = problem.world_size;
  const int hops = p - 1;
  const int right = (problem.rank + 1) % p;
  const int left = (problem.rank - 1 + p) % p;
  const std::size_t longest = *std::max_element(problem.counts.begin(), problem.counts.end());
  const auto owner = [&](int block) { return ((block % p) + p) % p; };
  const auto parts = [&](int block) {
    return segments({0, problem.counts[static_cast<std::size_t>(owner(block))]}, problem.segment_count);
  };
  const auto mine = [&](int block, const Range& part) {
    return in({block_offset(problem, owner(block)) + part.offset, part.count});
  };
  /// Where hop t builds its sum.
  const auto sum = [&](int t, const Range& part) {
    return t == hops - 1 ? out(part) : scratch({static_cast<std::size_t>(t % 2) * longest + part.offset, part.count});
  };
  for (const Range& part : parts(problem.rank)) {
    if (p == 1) b.copy(out(part), mine(problem.rank, part));
  }

  const std::size_t most_parts = segments({0, longest}, problem.segment_count).size();
  std::array<std::vector<Builder::After>, 2> sent;  // per place and segment: the last send from there
  sent[0].resize(most_parts);
  sent[1].resize(most_parts);
  std::vector<Builder::After> summed(most_parts);  // of the block that this hop sends
  for (int t = 0; t < hops; ++t) {
    const auto outgoing = parts(problem.rank - 1 - t), incoming = parts(problem.rank - 2 - t);
    for (std::size_t s = 0; s < std::max(outgoing.size(), incoming.size()); ++s) {
      if (s < outgoing.size()) {
        const auto send =
            b.send(right, t == 0 ? mine(problem.rank - 1, outgoing[s]) : sum(t - 1, outgoing[s]), summed[s]);
        if (t > 0) sent[static_cast<std::size_t>((t - 1) % 2)][s] = {send};
      }
      if (s < incoming.size()) {
        const auto received = b.recv(left, sum(t, incoming[s]), sent[static_cast<std::size_t>(t % 2)][s]);
        summed[s] = {b.reduce(sum(t, incoming[s]), mine(problem.rank - 2 - t, incoming[s]), false, {received})};
      }
    }
  }
  return b.finish(longest * static_cast<std::size_t>(std::clamp(hops - 1, 0, 2)));
}

}  // namespace tutti::comm::algorithms
