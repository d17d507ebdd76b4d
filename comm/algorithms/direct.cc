// Direct (flat): gather and scatter in which the root talks to every other rank itself.
//
// Idea: no rank passes on what is not its own. One message latency from end to end instead of lg p, and no memory, but
// p - 1 messages go through the root one after the other: for two or three ranks, and for long blocks, most of which a
// tree would move more than once.
//
// Nomenclature: p ranks, n elements per rank. The root takes the ranks in the order root + 1, root + 2, ... (mod p).
//
// Steps:          p - 1 messages at the root, 1 elsewhere
// Bytes sent:     scatter n(p - 1) elements at the root; gather n elsewhere, n(p - 1) received at the root
// Memory:         none beyond the caller's buffers
// Determinism:    nothing is computed.
// Source:         Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//                 experience. CCPE 19 (2007). https://doi.org/10.1002/cpe.1206
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

std::vector<Range> own_parts(const Problem& problem) { return segments({0, problem.count}, problem.segment_count); }

std::vector<Range> block_parts(const Problem& problem, int rank) {
  return segments({static_cast<std::size_t>(rank) * problem.count, problem.count}, problem.segment_count);
}

/// root + 1, root + 2, ... (mod p)
std::vector<int> others(const Problem& problem) {
  std::vector<int> result;
  for (int i = 1; i < problem.world_size; ++i) result.push_back((problem.root + i) % problem.world_size);
  return result;
}

}  // namespace

Schedule direct_gather(const Problem& problem) {
  Builder b("direct");
  const auto own = own_parts(problem);
  if (problem.rank != problem.root) {
    for (const Range& part : own) b.send(problem.root, in(part));
    return b.finish();
  }
  for (const int peer : others(problem)) {
    for (const Range& part : block_parts(problem, peer)) b.recv(peer, out(part));
  }
  const auto home = block_parts(problem, problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(home[s]), in(own[s]));
  return b.finish();
}

Schedule direct_scatter(const Problem& problem) {
  Builder b("direct");
  const auto own = own_parts(problem);
  if (problem.rank != problem.root) {
    for (const Range& part : own) b.recv(problem.root, out(part));
    return b.finish();
  }
  for (const int peer : others(problem)) {
    for (const Range& part : block_parts(problem, peer)) b.send(peer, in(part));
  }
  const auto home = block_parts(problem, problem.rank);
  for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(own[s]), in(home[s]));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
