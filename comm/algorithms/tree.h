// Tree: one rank's neighbours in a tree, and what passes up and down along it, segment by segment. Internal to
// comm/algorithms.
#pragma once

#include <tutti/comm/algorithms/builder.h>

#include <string_view>
#include <vector>

namespace tutti::comm::algorithms {

struct Tree {
  struct Child {
    int rank = -1;
    bool comes_first = false;  // its sum stands before this rank's
  };
  int parent = -1;              // -1 at the root
  std::vector<Child> children;  // their sums are added in this order; what comes down is sent in the opposite one
};

/// Adds the children's sums to `sum` once `ready` is done, then passes it to the parent. Returns the last step.
inline Builder::After up(Builder& b, const Tree& tree, Slice sum, Builder::After ready) {
  for (const Tree::Child& child : tree.children) ready = {b.recv_reduce(child.rank, sum, child.comes_first, ready)};
  if (tree.parent >= 0) ready = {b.send(tree.parent, sum, ready)};
  return ready;
}

/// Takes the part from the parent once `ready` is done, and passes it to the children.
inline void down(Builder& b, const Tree& tree, Slice part, Builder::After ready) {
  if (tree.parent >= 0) ready = {b.recv(tree.parent, part, ready)};
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) b.send(child->rank, part, ready);
}

inline Schedule broadcast_along(const Tree& tree, const Problem& problem, std::string_view algorithm) {
  Builder b(algorithm);
  for (const Range& part : segments({0, problem.count}, problem.segment_count)) down(b, tree, out(part), {});
  return b.finish();
}

/// The sum is built in Output at the root, in Scratch at ranks between root and leaves.
inline Schedule reduce_along(const Tree& tree, const Problem& problem, std::string_view algorithm) {
  Builder b(algorithm);
  const bool is_root = tree.parent < 0;
  const bool is_leaf = !is_root && tree.children.empty();
  for (const Range& part : segments({0, problem.count}, problem.segment_count)) {
    if (is_leaf) {
      b.send(tree.parent, in(part));
      continue;
    }
    const Slice sum = is_root ? out(part) : scratch(part);
    // Copied first, never added last: at the root Input and Output may be the same memory.
    up(b, tree, sum, {b.copy(sum, in(part))});
  }
  return b.finish(is_root || is_leaf ? 0 : problem.count);
}

inline Schedule all_reduce_along(const Tree& tree, const Problem& problem, std::string_view algorithm) {
  Builder b(algorithm);
  for (const Range& part : segments({0, problem.count}, problem.segment_count))
    down(b, tree, out(part), up(b, tree, out(part), {}));
  return b.finish();
}

}  // namespace tutti::comm::algorithms
