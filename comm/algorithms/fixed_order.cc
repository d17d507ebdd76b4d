// Fixed order: all_reduce and reduce whose bits depend on nothing but the ranks' inputs.
//
// Idea: each rank owns a chunk. Everybody sends it its part of that chunk at once, the owner adds what comes in the
// order of the ranks, itself in its turn, and then sends the sum to those that need it. So every element is the fold
// ((0 + 1) + 2) + ... from the left, whatever its place, the segments, the root or the transport; direct reduce_scatter
// (direct_reduce_scatter.cc) and the star (star.cc) give the same bits. In a reduce a vector that takes longer to pass
// on than to add (by_one) is one rank's chunk: the root's.
//
// Nomenclature: p ranks, n elements per rank, cut into p chunks, of which rank c owns chunk c.
//
// Steps:          2, of up to p - 1 messages each at every rank; by one: 1, of p - 1 at the root
// Bytes sent:     all_reduce 2n(p - 1)/p elements a rank: the least possible; reduce n(p - 1)/p, + n/p; by one: n
// Memory:         Scratch[n/p]; by one: Scratch[n] at the root
// Determinism:    as above; the operator need be associative only.
// Source:         Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//                 experience. CCPE 19 (2007), reduce-scatter followed by allgather or gather.
//                 https://doi.org/10.1002/cpe.1206
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

/// `own` makes slices of the caller's vector: Output for all_reduce, Input for reduce. `chunk(rank)`: what it adds.
/// `needs(rank)`: who gets the sums.
template <typename SliceOf, typename Chunk, typename Needs>
Schedule add_and_share(const Problem& problem, const SliceOf& own, const Chunk& chunk, const Needs& needs) {
  Builder b("fixed");
  const int p = problem.world_size;
  const auto parts = [&](int owner) { return segments(chunk(owner), problem.segment_count); };
  const Range mine = chunk(problem.rank);
  const auto sum = [&](const Range& part) { return scratch({part.offset - mine.offset, part.count}); };

  std::vector<Builder::After> sent(static_cast<std::size_t>(p));  // by owner and segment
  for (int distance = 1; distance < p; ++distance) {              // not all to rank 0 first
    const int owner = (problem.rank + distance) % p;
    for (const Range& part : parts(owner)) sent[static_cast<std::size_t>(owner)].push_back(b.send(owner, own(part)));
  }
  Builder::After added;  // by segment
  for (const Range& part : parts(problem.rank)) {
    Builder::After done;
    for (int rank = 0; rank < p; ++rank) {
      if (rank == problem.rank) {
        done = {rank == 0 ? b.copy(sum(part), own(part)) : b.reduce(sum(part), own(part), false, done)};
      } else {
        done = {rank == 0 ? b.recv(rank, sum(part)) : b.recv_reduce(rank, sum(part), false, done)};
      }
    }
    added.push_back(done.front());
  }
  for (int distance = 0; distance < p; ++distance) {
    const int peer = (problem.rank + distance) % p;
    const auto own_parts = parts(problem.rank);
    for (std::size_t s = 0; needs(peer) && s < own_parts.size(); ++s) {
      if (peer == problem.rank) {
        b.copy(out(own_parts[s]), sum(own_parts[s]), {added[s]});
      } else {
        b.send(peer, sum(own_parts[s]), {added[s]});
      }
    }
    const auto their_parts = parts(peer);
    for (std::size_t s = 0; needs(problem.rank) && peer != problem.rank && s < their_parts.size(); ++s)
      b.recv(peer, out(their_parts[s]), {sent[static_cast<std::size_t>(peer)][s]});  // may be what has been sent from
  }
  return b.finish(mine.count);
}

auto each_its_chunk(const Problem& problem) {
  return [&problem](int rank) { return chunk_of(problem.count, problem.world_size, rank); };
}

auto all_at(int owner, const Problem& problem) {
  return [owner, &problem](int rank) { return Range{0, rank == owner ? problem.count : 0}; };
}

template <typename Chunk>
Schedule reduce(const Problem& problem, const Chunk& chunk) {
  return add_and_share(
      problem, [](const Range& part) { return in(part); }, chunk, [&](int rank) { return rank == problem.root; });
}

}  // namespace

Schedule fixed_all_reduce(const Problem& problem) {
  return add_and_share(
      problem, [](const Range& part) { return out(part); }, each_its_chunk(problem), [](int) { return true; });
}

Schedule fixed_reduce(const Problem& problem) { return reduce(problem, each_its_chunk(problem)); }
Schedule fixed_reduce_by_one(const Problem& problem) { return reduce(problem, all_at(problem.root, problem)); }

}  // namespace tutti::comm::algorithms
