// Fixed order: all_reduce and reduce whose bits depend on nothing but the ranks' inputs.
//
// Idea: each element has an owner. Every rank sends the owners their parts at once, an owner adds what comes in the
// order of the ranks, itself in its turn, and then sends the sum to those that need it. So every element is the fold
// ((0 + 1) + 2) + ... from the left, whatever its place, the segments, the root or the transport; direct reduce_scatter
// (direct.cc) and the star (star.cc) give the same bits.
//
// Nomenclature: p ranks, n elements per rank; rank r owns chunk r of p, which differ by one element at most.
//
// Determinism:    as above; the operator need be associative only.
// Source:         Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//                 experience. CCPE 19 (2007), reduce-scatter followed by allgather or gather.
//                 https://doi.org/10.1002/cpe.1206
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

/// `own` is where the caller has its vector. The sums are wanted by `root`, or by all if it is -1.
Schedule fixed_order(const Problem& problem, BufferId own, int root) {
  Builder b("fixed");
  const int p = problem.world_size;
  const auto peer_at = [&](int distance) { return (problem.rank + distance) % p; };
  const auto needs = [&](int rank) { return root < 0 || root == rank; };
  const auto parts = [&](int owner) { return segments(chunk_of(problem.count, p, owner), problem.segment_count); };
  const auto given = [&](const Range& part) { return Slice{own, part.offset, part.count}; };
  const Range chunk = chunk_of(problem.count, p, problem.rank);
  const auto sum_of = [&](const Range& part) { return scratch({part.offset - chunk.offset, part.count}); };

  std::vector<Builder::After> sent(static_cast<std::size_t>(p));  // by owner
  for (int distance = 1; distance < p; ++distance) {              // not all to rank 0 first
    const int owner = peer_at(distance);
    for (const Range& part : parts(owner)) sent[static_cast<std::size_t>(owner)].push_back(b.send(owner, given(part)));
  }
  std::vector<Builder::After> added;  // by part of this rank's chunk
  for (const Range& part : parts(problem.rank))
    added.push_back(fold_from_left(b, problem, sum_of(part), given(part), {}));
  for (int distance = 0; distance < p; ++distance) {
    const int peer = peer_at(distance);
    const auto mine = parts(problem.rank), theirs = parts(peer);
    for (std::size_t s = 0; needs(peer) && s < mine.size(); ++s) {
      if (distance == 0) b.copy(out(mine[s]), sum_of(mine[s]), added[s]);
      if (distance > 0) b.send(peer, sum_of(mine[s]), added[s]);
    }
    for (std::size_t s = 0; distance > 0 && needs(problem.rank) && s < theirs.size(); ++s)
      b.recv(peer, out(theirs[s]), {sent[static_cast<std::size_t>(peer)][s]});  // may be what has been sent from
  }
  return b.finish(chunk.count);
}

}  // namespace

Schedule fixed_all_reduce(const Problem& problem) { return fixed_order(problem, BufferId::Output, -1); }
Schedule fixed_reduce(const Problem& problem) { return fixed_order(problem, BufferId::Input, problem.root); }

}  // namespace tutti::comm::algorithms
