// Recursive halving: reduce_scatter in the fewest rounds, for worlds of a power of two.
//
// Idea: the mirror image of recursive doubling. In each round a rank and its partner, 2^k away, share the blocks that
// they still work on: each sends the half that the other one keeps and adds what it gets to its own. After lg p rounds
// one block is left, with every rank's part in it. Other worlds take the direct algorithm (direct_reduce_scatter.cc).
//
// Nomenclature: p ranks, n elements per rank (Input holds p blocks of n); half = p/2, p/4, ..., 1 blocks kept.
//   The first round sends from Input and builds its sums in Scratch; later ones receive behind those sums and add. The
//   last one receives into Output.
//
// Why receive first and then add: as in recursive_doubling.cc, a sum that is being sent must not be written.
//
// Steps:          lg p rounds
// Bytes sent:     n(p - 1) elements a rank, in lg p messages
// Memory:         Scratch[up to pn]
// Determinism:    partners combine lower (+) higher, each block in one place; the ranks in a sum are not neighbours, so
//                 the operator must be commutative (up to rounding). The bits of a floating point sum depend on p.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005), section 4.4. https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

#include <bit>

namespace tutti::comm::algorithms {

Schedule recursive_halving_reduce_scatter(const Problem& problem) {
  const int p = problem.world_size;
  if (!std::has_single_bit(static_cast<unsigned>(p)) || p == 1) return direct_reduce_scatter(problem);
  Builder b("recursive_halving");
  const std::size_t n = problem.count;
  const int base = problem.rank & ~(p / 2 - 1);  // first of the blocks whose sums lie in Scratch, from its beginning on
  std::size_t scratch_count = p == 2 ? 0 : static_cast<std::size_t>(p / 2) * n;
  const auto sum = [&](const Range& part) {
    return scratch({part.offset - static_cast<std::size_t>(base) * n, part.count});
  };
  Fills sums;  // by offset in Input

  for (int half = p / 2; half >= 1; half /= 2) {
    const int partner = problem.rank ^ half;
    const bool lower = problem.rank < partner;
    const bool first_round = half == p / 2;
    const auto blocks = [&](int rank) -> Range {
      return {static_cast<std::size_t>(rank & ~(half - 1)) * n, static_cast<std::size_t>(half) * n};
    };
    for (const Range& part : segments(blocks(partner), problem.segment_count)) {
      b.send(partner, first_round ? in(part) : sum(part), sums.touching(part));
    }
    const Range kept = blocks(problem.rank);
    for (const Range& part : segments(kept, problem.segment_count)) {
      const Slice own = first_round ? in(part) : sum(part);
      const Range offset{part.offset - kept.offset, part.count};
      Builder::After ready = sums.touching(part);
      if (half == 1 || first_round) {  // the partner's part comes to where the result belongs, the own is added to it
        const Slice target = half == 1 ? out(offset) : sum(part);
        ready.push_back(b.recv(partner, target));
        sums.add(part, b.reduce(target, own, lower, ready));
      } else {
        const Slice incoming = scratch({scratch_count + offset.offset, part.count});
        ready.push_back(b.recv(partner, incoming));
        sums.add(part, b.reduce(own, incoming, !lower, ready));
      }
    }
    if (half > 1 && !first_round) scratch_count += kept.count;
  }
  return b.finish(scratch_count);
}

}  // namespace tutti::comm::algorithms
