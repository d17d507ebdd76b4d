// Tree: one rank's neighbours in a tree, and what passes up and down along one or several, segment by segment. Internal
// to comm/algorithms.
//
// Several trees carry an equal part of the vector each; their segments take turns. Of these trees a rank that is not
// the root has children in one only, so the part of one is all that Scratch has to hold.
#pragma once

#include <tutti/comm/algorithms/builder.h>

#include <string_view>
#include <vector>

namespace tutti::comm::algorithms {

struct RankRange {
  int first = 0;
  int last = 0;  // and one more

  bool contains(int rank) const { return first <= rank && rank < last; }
};

struct Tree {
  struct Child {
    int rank = -1;
    bool comes_first = false;  // its sum stands before this rank's
    RankRange subtree{};       // where that is unbroken, as gather and scatter need it
  };
  int parent = -1;              // -1 at the root
  std::vector<Child> children;  // their sums are added in this order; what comes down is sent in the opposite one
  RankRange subtree{};          // this rank's
};

/// All others are the root's children: root + 1, root + 2, ... (mod p).
inline Tree flat_tree(const Problem& problem, int root) {
  const int p = problem.world_size;
  if (problem.rank != root) return {root, {}, {}};
  Tree tree{-1, {}, {0, p}};
  for (int i = 1; i < p; ++i) {
    const int child = (root + i) % p;
    tree.children.push_back({child, false, {child, child + 1}});
  }
  return tree;
}

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

/// A segment of the vector, the tree that carries it, and where it begins in that tree's part of the vector.
struct Load {
  const Tree* tree;
  Range part;
  std::size_t begin;
};

inline std::vector<Load> loads_of(const std::vector<Tree>& trees, const Problem& problem) {
  std::vector<Load> loads;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const Range carried = chunk_of(problem.count, static_cast<int>(trees.size()), static_cast<int>(i));
    for (const Range& part : segments(carried, problem.segment_count))
      loads.push_back({&trees[i], part, part.offset - carried.offset});
  }
  std::ranges::stable_sort(loads, {}, &Load::begin);
  return loads;
}

inline Schedule broadcast_along(const std::vector<Tree>& trees, const Problem& problem, std::string_view algorithm) {
  Builder b(algorithm);
  for (const auto& [tree, part, begin] : loads_of(trees, problem)) down(b, *tree, out(part), {});
  return b.finish();
}

/// The sum is built in Output at the root, in Scratch at ranks between root and leaves.
inline Schedule reduce_along(const std::vector<Tree>& trees, const Problem& problem, std::string_view algorithm) {
  Builder b(algorithm);
  std::size_t scratch_count = 0;
  for (const auto& [tree, part, begin] : loads_of(trees, problem)) {
    const bool is_root = tree->parent < 0;
    if (!is_root && tree->children.empty()) {
      b.send(tree->parent, in(part));
      continue;
    }
    if (!is_root) scratch_count = begin + part.count;
    const Slice sum = is_root ? out(part) : scratch({begin, part.count});
    // Copied first, never added last: at the root Input and Output may be the same memory.
    up(b, *tree, sum, {b.copy(sum, in(part))});
  }
  return b.finish(scratch_count);
}

/// Up to the root, and down again `lag` segments later: messages of one pair of ranks keep the order of the steps.
inline Schedule all_reduce_along(const std::vector<Tree>& trees, const Problem& problem, std::string_view algorithm,
                                 std::size_t lag = 0) {
  Builder b(algorithm);
  const std::vector<Load> loads = loads_of(trees, problem);
  std::vector<Builder::After> summed;
  for (std::size_t i = 0; i < loads.size() + lag; ++i) {
    if (i < loads.size()) summed.push_back(up(b, *loads[i].tree, out(loads[i].part), {}));
    if (i >= lag && i - lag < loads.size()) down(b, *loads[i - lag].tree, out(loads[i - lag].part), summed[i - lag]);
  }
  return b.finish();
}

/// Gather, or scatter, which is the same messages the other way round. Blocks lie in Scratch between root and leaves.
inline Schedule pass_blocks(const Tree& tree, const Problem& problem, std::string_view algorithm, bool gathers) {
  Builder b(algorithm);
  const bool is_root = tree.parent < 0;
  const auto own = own_parts(problem);
  if (!is_root && tree.children.empty()) {
    for (const Range& part : own) gathers ? b.send(tree.parent, in(part)) : b.recv(tree.parent, out(part));
    return b.finish();
  }

  const std::size_t origin = block_of(problem, tree.subtree.first).offset;
  const auto blocks = [&](RankRange ranks) {
    const std::size_t begin = block_of(problem, ranks.first).offset;
    return segments({begin - origin, block_of(problem, ranks.last).offset - begin}, problem.segment_count);
  };
  const auto place = [&](const Range& part) { return !is_root ? scratch(part) : gathers ? out(part) : in(part); };
  const auto home = blocks({problem.rank, problem.rank + 1});
  Fills fills;
  const auto take = [&](int peer, RankRange ranks) {
    for (const Range& part : blocks(ranks)) fills.add(part, b.recv(peer, place(part)));
  };
  const auto give = [&](int peer, RankRange ranks) {
    for (const Range& part : blocks(ranks)) b.send(peer, place(part), fills.touching(part));
  };
  if (gathers) {
    for (std::size_t s = 0; s < own.size(); ++s) fills.add(home[s], b.copy(place(home[s]), in(own[s])));
    for (const Tree::Child& child : tree.children) take(child.rank, child.subtree);
    if (!is_root) give(tree.parent, tree.subtree);
  } else {
    if (!is_root) take(tree.parent, tree.subtree);
    for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) give(child->rank, child->subtree);
    for (std::size_t s = 0; s < own.size(); ++s) b.copy(out(own[s]), place(home[s]), fills.touching(home[s]));
  }
  return b.finish(is_root ? 0 : block_of(problem, tree.subtree.last).offset - origin);
}

}  // namespace tutti::comm::algorithms
