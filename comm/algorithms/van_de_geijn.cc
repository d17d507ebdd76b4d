// Van de Geijn: broadcast of a long vector as a scatter and an all-gather; no rank sends it more than twice.
//
// Idea: cut the vector into one chunk per rank. The chunks are scattered along the binomial tree of binomial.cc, in
// which a subtree is an unbroken range of ranks and so of Output; then they travel around a ring until every rank has
// all. The head of a subtree has that subtree's chunks from the scatter already, so the ring does not bring them again.
//
// Nomenclature: p ranks, n elements; chunk c belongs to rank c; hop t = 0 .. p - 2 of the ring. Chunks differ by one
// element at most, may be empty (n < p), and are cut into segments.
//
// Steps:          ceil(lg p) rounds, then p - 1 hops
// Bytes sent:     at most 2n(p - 1)/p elements, at the root
// Memory:         none beyond the caller's buffers
// Determinism:    nothing is computed.
// Source:         Barnett, Gupta, Payne, Shuler, van de Geijn, Watts: Interprocessor collective communication library
//                 (InterCom). SHPCC (1994). https://doi.org/10.1109/SHPCC.1994.296665
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/binomial_tree.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

std::vector<Range> chunks(const Problem& problem, int first, int last) {
  const Range begin = chunk_of(problem.count, problem.world_size, first);
  const Range end = chunk_of(problem.count, problem.world_size, last - 1);
  return segments({begin.offset, end.offset + end.count - begin.offset}, problem.segment_count);
}

bool holds(const Subtree& ranks, int chunk) { return ranks.first <= chunk && chunk < ranks.last; }

}  // namespace

Schedule van_de_geijn_broadcast(const Problem& problem) {
  Builder b("van_de_geijn");
  const int p = problem.world_size;
  const BinomialTree tree = binomial_tree(problem.rank, p, problem.root);
  std::vector<Builder::After> arrived(static_cast<std::size_t>(p));  // per chunk: the receives that brought it
  Fills scattered;
  if (tree.parent >= 0) {
    for (const Range& part : chunks(problem, tree.own.first, tree.own.last)) {
      scattered.add(part, b.recv(tree.parent, out(part)));
    }
  }
  for (const Subtree& child : tree.children) {
    for (const Range& part : chunks(problem, child.first, child.last)) {
      b.send(child.head, out(part), scattered.touching(part));
    }
  }

  const int right = (problem.rank + 1) % p;
  const int left = (problem.rank - 1 + p) % p;
  const Subtree right_has = binomial_tree(right, p, problem.root).own;
  for (int t = 0; t < p - 1; ++t) {
    const int outgoing = (problem.rank - t + p) % p;
    const int incoming = (problem.rank - 1 - t + p) % p;
    if (!holds(right_has, outgoing)) {
      const auto parts = chunks(problem, outgoing, outgoing + 1);
      const Builder::After& from_ring = arrived[static_cast<std::size_t>(outgoing)];
      for (std::size_t s = 0; s < parts.size(); ++s) {
        const bool was_scattered = holds(tree.own, outgoing);
        b.send(right, out(parts[s]), was_scattered ? scattered.touching(parts[s]) : Builder::After{from_ring[s]});
      }
    }
    if (!holds(tree.own, incoming)) {
      for (const Range& part : chunks(problem, incoming, incoming + 1)) {
        arrived[static_cast<std::size_t>(incoming)].push_back(b.recv(left, out(part)));
      }
    }
  }
  return b.finish();
}

}  // namespace tutti::comm::algorithms
