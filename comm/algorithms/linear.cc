// Linear: gather_v and scatter_v, by one message between the root and each other rank.
//
// Idea: blocks of different lengths go straight from where they are to where they belong. No rank passes on, or makes
// room for, what belongs to another; a tree would have to carry the largest blocks several times.
//
// Nomenclature: p ranks; c(r) elements of rank r (Problem::counts); block r begins at c(0) + ... + c(r - 1).
//
// Steps:          1, of p - 1 messages at the root
// Bytes sent:     gather_v c(r) elements a rank; scatter_v all blocks but the root's own, at the root
// Memory:         none
// Determinism:    nothing is computed.
// Source:         Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH. IJHPCA 19
//                 (2005). https://doi.org/10.1177/1094342005051521
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

/// Rank r's block among all blocks, as segments.
std::vector<Range> block(const Problem& problem, int rank) {
  return segments({block_offset(problem, rank), problem.counts[static_cast<std::size_t>(rank)]}, problem.segment_count);
}

/// The same where it is the only one.
std::vector<Range> alone(const Problem& problem) {
  return segments({0, problem.counts[static_cast<std::size_t>(problem.rank)]}, problem.segment_count);
}

}  // namespace

Schedule linear_gather_v(const Problem& problem) {
  Builder b("linear");
  const auto own = alone(problem);
  if (problem.rank != problem.root) {
    for (const Range& part : own) b.send(problem.root, in(part));
    return b.finish();
  }
  const auto home = block(problem, problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(home[s]), in(own[s]));
  for (int distance = 1; distance < problem.world_size; ++distance) {
    const int peer = (problem.rank + distance) % problem.world_size;
    for (const Range& part : block(problem, peer)) b.recv(peer, out(part));
  }
  return b.finish();
}

Schedule linear_scatter_v(const Problem& problem) {
  Builder b("linear");
  const auto own = alone(problem);
  if (problem.rank != problem.root) {
    for (const Range& part : own) b.recv(problem.root, out(part));
    return b.finish();
  }
  for (int distance = 1; distance < problem.world_size; ++distance) {
    const int peer = (problem.rank + distance) % problem.world_size;
    for (const Range& part : block(problem, peer)) b.send(peer, in(part));
  }
  const auto home = block(problem, problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(own[s]), in(home[s]));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
