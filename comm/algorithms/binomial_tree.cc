#include <tutti/comm/algorithms/binomial_tree.h>

namespace tutti::comm::algorithms {

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

}  // namespace tutti::comm::algorithms
