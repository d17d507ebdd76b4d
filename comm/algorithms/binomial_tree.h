// BinomialTree: one rank's place in the tree that broadcast, reduce, gather and scatter share. Internal to
// comm/algorithms; binomial.cc explains the tree.
#pragma once

#include <vector>

namespace tutti::comm::algorithms {

/// Ranks [first, last) and the one among them that speaks for them.
struct Subtree {
  int head = 0;
  int first = 0;
  int last = 0;

  int size() const { return last - first; }
};

struct BinomialTree {
  int parent = -1;                // -1 at the root
  Subtree own;                    // what this rank speaks for, itself included
  std::vector<Subtree> children;  // largest first; each borders on the ranks left when those before it are taken away
};

BinomialTree binomial_tree(int rank, int world_size, int root);

}  // namespace tutti::comm::algorithms
