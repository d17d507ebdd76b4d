// Binomial tree: broadcast, reduce, gather and scatter from or to any root in ceil(lg p) rounds; all_reduce in twice as
// many.
//
// Idea: cut the ranks into a lower and an upper half. The root speaks for its half, the lowest rank of the other half
// for that one; one message passes between the two; then each half does the same by itself. For p = 2^k and root 0 this
// is the binomial tree. Unlike the textbook's tree over (rank - root) mod p, each subtree is an unbroken range of ranks
// for every root: gather and scatter move one piece, and reduce keeps the order of the ranks.
//
// Nomenclature: p ranks, n elements per rank; parent, children and subtree sizes m as in Tree.
//   broadcast  from parent, to children, largest subtree first
//   reduce     from children, smallest subtree first, to parent; the sum is built in Output (root) or Scratch
//   all_reduce reduce to rank 0, in Output everywhere, and broadcast from there: 2(p - 1) messages in all. Recursive
//              doubling has p lg p, but half the rounds: what counts where p ranks share few CPUs.
//   gather     like reduce, but blocks are laid side by side; scatter is gather backwards
// Messages are cut into segments; a segment is passed on as soon as it is there, so that a long vector is pipelined.
//
// Determinism:    reduce computes lower (+) higher over neighbouring ranges: the operator need be associative only. The
//                 bits of a floating point sum depend on p and the root.
// Source:         Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//                 experience. CCPE 19 (2007), "minimum spanning tree" algorithms. https://doi.org/10.1002/cpe.1206
#include <tutti/comm/algorithms/tree.h>

#include <tuple>

namespace tutti::comm::algorithms {
namespace {

/// Each subtree is spoken for by its lowest rank, the whole by the root.
Tree binomial_tree(const Problem& problem, int root) {
  const int rank = problem.rank;
  RankRange range{0, problem.world_size};
  int head = root;  // speaks for the range
  Tree tree{-1, {}, range};
  while (range.last - range.first > 1) {
    const int middle = range.first + (range.last - range.first + 1) / 2;
    const RankRange lower{range.first, middle}, upper{middle, range.last};
    const auto& [with_head, other] = lower.contains(head) ? std::tie(lower, upper) : std::tie(upper, lower);
    // The smallest subtree, which borders on this rank's own part, stands first.
    if (rank == head) tree.children.insert(tree.children.begin(), {other.first, other.first < rank, other});
    if (rank == other.first) tree = {head, {}, other};
    range = other.contains(rank) ? other : with_head;
    if (!range.contains(head)) head = range.first;
  }
  return tree;
}

}  // namespace

Schedule binomial_broadcast(const Problem& problem) {
  return broadcast_along({binomial_tree(problem, problem.root)}, problem, "binomial");
}

Schedule binomial_reduce(const Problem& problem) {
  return reduce_along({binomial_tree(problem, problem.root)}, problem, "binomial");
}

Schedule binomial_all_reduce(const Problem& problem) {
  return all_reduce_along({binomial_tree(problem, 0)}, problem, "binomial");
}

Schedule binomial_gather(const Problem& problem) {
  return pass_blocks(binomial_tree(problem, problem.root), problem, "binomial", true);
}
Schedule binomial_scatter(const Problem& problem) {
  return pass_blocks(binomial_tree(problem, problem.root), problem, "binomial", false);
}

}  // namespace tutti::comm::algorithms
