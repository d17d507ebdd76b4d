// Direct (flat): broadcast, reduce, gather and scatter in which the root talks to every other rank itself.
//
// Idea: no rank passes on what is not its own. One message latency from end to end instead of lg p, and no memory, but
// p - 1 messages go through the root one after the other: for two or three ranks, and for gather and scatter of long
// blocks, where a tree would move most of them more than once.
//
// Nomenclature: p ranks, n elements per rank. The root takes the ranks in the order root + 1, root + 2, ... (mod p);
// reduce takes those below the root in falling order, then those above it in rising order.
//
// Steps:          p - 1 messages at the root, 1 elsewhere
// Bytes sent:     broadcast, scatter n(p - 1) elements at the root; reduce, gather n elsewhere, n(p - 1) received there
// Memory:         none beyond the caller's buffers
// Determinism:    reduce extends an unbroken range of ranks at its lower or its upper end: the operator need be
//                 associative only. The bits of a floating point sum depend on p and the root.
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

Schedule direct_broadcast(const Problem& problem) {
  Builder b("direct");
  for (const Range& part : own_parts(problem)) {
    if (problem.rank != problem.root) {
      b.recv(problem.root, out(part));
      continue;
    }
    for (const int peer : others(problem)) b.send(peer, out(part));
  }
  return b.finish();
}

Schedule direct_reduce(const Problem& problem) {
  Builder b("direct");
  for (const Range& part : own_parts(problem)) {
    if (problem.rank != problem.root) {
      b.send(problem.root, in(part));
      continue;
    }
    // Copied first, never added last: Input and Output may be the same memory.
    Builder::After done = {b.copy(out(part), in(part))};
    for (int peer = problem.root - 1; peer >= 0; --peer) done = {b.recv_reduce(peer, out(part), true, done)};
    for (int peer = problem.root + 1; peer < problem.world_size; ++peer) {
      done = {b.recv_reduce(peer, out(part), false, done)};
    }
  }
  return b.finish();
}

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
