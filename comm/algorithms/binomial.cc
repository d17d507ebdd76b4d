// Binomial tree: broadcast, reduce, gather and scatter from or to any root in ceil(lg p) rounds; all_reduce in twice as
// many.
//
// Idea: cut the ranks into a lower and an upper half. The root speaks for its half, the lowest rank of the other half
// for that one; one message passes between the two; then each half does the same by itself. For p = 2^k and root 0 this
// is the binomial tree. Unlike the textbook's tree over (rank - root) mod p, each subtree is an unbroken range of ranks
// for every root: gather and scatter move one piece, and reduce keeps the order of the ranks.
//
// Nomenclature: p ranks, n elements per rank; parent, children and subtree sizes m as in BinomialTree.
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

namespace tutti::comm::algorithms {
namespace {

/// Ranks [first, last) and the one among them that speaks for them.
struct Subtree {
  int head = 0;
  int first = 0;
  int last = 0;

  int size() const { return last - first; }
};

/// One rank's place in the tree.
struct BinomialTree {
  int parent = -1;                // -1 at the root
  Subtree own;                    // what this rank speaks for, itself included
  std::vector<Subtree> children;  // largest first; each borders on the ranks left when those before it are taken away
};

BinomialTree binomial_tree(int rank, int world_size, int root) {
  Subtree range{root, 0, world_size};
  BinomialTree tree;
  tree.own = range;
  while (range.size() > 1) {
    const int middle = range.first + (range.size() + 1) / 2;
    const Subtree lower{range.head < middle ? range.head : range.first, range.first, middle};
    const Subtree upper{range.head < middle ? middle : range.head, middle, range.last};
    const Subtree& with_head = range.head < middle ? lower : upper;
    const Subtree& other = range.head < middle ? upper : lower;
    if (rank == range.head) tree.children.push_back(other);
    if (rank == other.head) {
      tree.parent = range.head;
      tree.own = other;
    }
    range = (rank >= other.first && rank < other.last) ? other : with_head;
  }
  return tree;
}

/// Smallest subtree first.
Tree neighbours(const Problem& problem, int root) {
  const BinomialTree place = binomial_tree(problem.rank, problem.world_size, root);
  Tree tree{place.parent, {}};
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    tree.children.push_back({child->head, child->first < problem.rank});
  return tree;
}

/// The blocks of `ranks` in a buffer whose first block belongs to rank `origin`, as segments.
std::vector<Range> blocks(const Problem& problem, const Subtree& ranks, int origin) {
  const std::size_t n = problem.count;
  return segments({static_cast<std::size_t>(ranks.first - origin) * n, static_cast<std::size_t>(ranks.size()) * n},
                  problem.segment_count);
}

Subtree only(int rank) { return {rank, rank, rank + 1}; }

/// gather, and scatter: the same pieces the other way round.
Schedule between_root_and_leaves(const Problem& problem, bool gathers) {
  Builder b("binomial");
  const BinomialTree tree = binomial_tree(problem.rank, problem.world_size, problem.root);
  const bool is_root = tree.parent < 0;
  const auto own = segments({0, problem.count}, problem.segment_count);
  if (!is_root && tree.children.empty()) {
    for (const Range& part : own) gathers ? b.send(tree.parent, in(part)) : b.recv(tree.parent, out(part));
    return b.finish();
  }

  const int origin = is_root ? 0 : tree.own.first;
  const auto place = [&](const Range& part) { return !is_root ? scratch(part) : gathers ? out(part) : in(part); };
  const auto home = blocks(problem, only(problem.rank), origin);
  Fills fills;
  const auto take = [&](int peer, const Subtree& ranks) {
    for (const Range& part : blocks(problem, ranks, origin)) fills.add(part, b.recv(peer, place(part)));
  };
  const auto give = [&](int peer, const Subtree& ranks) {
    for (const Range& part : blocks(problem, ranks, origin)) b.send(peer, place(part), fills.touching(part));
  };
  if (gathers) {
    for (std::size_t s = 0; s < own.size(); ++s) fills.add(home[s], b.copy(place(home[s]), in(own[s])));
    for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) take(child->head, *child);
    if (!is_root) give(tree.parent, tree.own);
  } else {
    if (!is_root) take(tree.parent, tree.own);
    for (const Subtree& child : tree.children) give(child.head, child);
    for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(own[s]), place(home[s]), fills.touching(home[s]));
  }
  return b.finish(is_root ? 0 : static_cast<std::size_t>(tree.own.size()) * problem.count);
}

}  // namespace

Schedule binomial_broadcast(const Problem& problem) {
  return broadcast_along({neighbours(problem, problem.root)}, problem, "binomial");
}

Schedule binomial_reduce(const Problem& problem) {
  return reduce_along({neighbours(problem, problem.root)}, problem, "binomial");
}

Schedule binomial_all_reduce(const Problem& problem) {
  return all_reduce_along({neighbours(problem, 0)}, problem, "binomial");
}

Schedule binomial_gather(const Problem& problem) { return between_root_and_leaves(problem, true); }
Schedule binomial_scatter(const Problem& problem) { return between_root_and_leaves(problem, false); }

}  // namespace tutti::comm::algorithms
