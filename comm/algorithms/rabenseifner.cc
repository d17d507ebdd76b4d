// Rabenseifner: all_reduce that moves as few bytes as the ring in as few rounds, but two, as recursive doubling needs.
//
// Idea: reduce-scatter by halving, then all-gather by doubling. In halving round k partners split the range they share:
// each sends the half it gives up and adds what comes to the half it keeps, until each holds one finished chunk; the
// same exchanges backwards then collect the chunks. Ranks beyond a power of two hand their vector to a neighbour first
// and get the result back at the end (fold(), hosts.h). What is received and what is sent never overlap: no Scratch.
//
// Nomenclature: p ranks, n elements per rank; q = largest power of two <= p, e = p - q; of ranks 0 .. 2e-1 the even
// ones fold into the odd ones; the q ranks that remain have ids 0 .. q-1 in rank order and exchange with id ^ d for
// d = 1, 2, 4, ... and then back. Chunks differ by one element at most; empty halves send nothing.
//
// Determinism:    the nearest partner comes first, so a rank always holds the sum of an unbroken range of ranks, and
//                 adds lower (+) higher: the operator need be associative only. Each chunk is computed once and copied:
//                 equal bits on all ranks. The bits of a floating point sum depend on p, but not on the chunk: they are
//                 those of recursive doubling.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005), section 4.5. https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/builder.h>
#include <tutti/comm/algorithms/hosts.h>

#include <bit>

namespace tutti::comm::algorithms {
namespace {

/// Chunks [first, last) of q.
struct Chunks {
  int first = 0;
  int last = 0;
};

/// One halving round of one rank: the peer, and what is kept and given up.
struct Exchange {
  int partner = 0;
  Chunks kept;
  Chunks given;
};

std::vector<Exchange> halving_rounds(int id, int q) {
  std::vector<Exchange> rounds;
  Chunks mine{0, q};
  for (int distance = 1; distance < q; distance *= 2) {
    const int middle = (mine.first + mine.last) / 2;
    Exchange round{id ^ distance, {mine.first, middle}, {middle, mine.last}};
    if ((id & distance) != 0) std::swap(round.kept, round.given);
    mine = round.kept;
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace

Schedule rabenseifner_all_reduce(const Problem& problem) {
  const int q = problem.world_size;
  if (!std::has_single_bit(static_cast<unsigned>(q))) return fold("rabenseifner", problem, rabenseifner_all_reduce);
  Builder b("rabenseifner");
  const auto parts = [&](Chunks chunks) {
    const std::size_t begin = chunk_of(problem.count, q, chunks.first).offset;
    const Range last = chunk_of(problem.count, q, chunks.last - 1);
    return segments({begin, last.offset + last.count - begin}, problem.segment_count);
  };
  const std::vector<Exchange> rounds = halving_rounds(problem.rank, q);
  Fills filled;                                   // what wrote Output last
  std::vector<std::vector<Builder::Index>> sent;  // [round]: a half may be overwritten when it has left
  for (const auto& [partner, kept, given] : rounds) {
    auto& sends = sent.emplace_back();
    for (const Range& part : parts(given)) sends.push_back(b.send(partner, out(part), filled.touching(part)));
    Fills sums;
    for (const Range& part : parts(kept))
      sums.add(part, b.recv_reduce(partner, out(part), partner < problem.rank, filled.touching(part)));
    filled = std::move(sums);
  }
  for (std::size_t k = rounds.size(); k-- > 0;) {
    const auto& [partner, kept, given] = rounds[k];
    for (const Range& part : parts(kept)) b.send(partner, out(part), filled.touching(part));
    const auto missing = parts(given);
    for (std::size_t s = 0; s < missing.size(); ++s)
      filled.add(missing[s], b.recv(partner, out(missing[s]), {sent[k][s]}));
  }
  return b.finish();
}

}  // namespace tutti::comm::algorithms
