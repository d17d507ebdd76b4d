// Double tree: broadcast, reduce and all_reduce over two binary trees at once, half the vector over each.
//
// Idea: in a binary tree half of the ranks are leaves, which never send on: a pipeline over one tree uses half of the
// network. The second tree makes the leaves of the first its inner ranks. Each carries half of the vector, so every
// rank receives and sends n elements in all, and the latency is that of a tree, not that of a chain.
//
// Nomenclature: p ranks, n elements, k segments in each half. The ranks stand in a row, root first, then root + 1, ...
// (mod p), with roles 0, 1, ..., m = p - 1. Role 0 has one child. The parent of role i, whose lowest set bit is b, is
// i - b if that bit is unset or too far above (i + b > m), else i + b, as in the Fenwick tree: odd roles are leaves,
// the lower child covers the roles just below i, the higher child those just above. In the second tree role i takes the
// place of m + 1 - i if m is even, and of i - 1 (1 of m) if m is odd; so only role 0 has children in both.
//
// all_reduce is a reduce to rank 0 and a broadcast from there. The sum of a segment comes back some 2 lg p segments of
// its tree after it went up; the steps stand in that order.
//
// Determinism:    a subtree is an unbroken range of roles and lower (+) own (+) higher is computed; the two halves of a
//                 vector are summed in different orders of the ranks: the operator need be commutative. all_reduce
//                 computes each element once and copies it: equal bits on all ranks.
// Source:         Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan.
//                 Parallel Computing 35 (2009). https://doi.org/10.1016/j.parco.2009.09.001
#include <tutti/comm/algorithms/tree.h>

#include <bit>

namespace tutti::comm::algorithms {
namespace {

/// One role's neighbours in the first tree; -1 where there is none.
struct RolePlace {
  int parent = -1;
  int lower = -1;
  int higher = -1;
};

/// In roles; `last` is m.
RolePlace place_of_role(int role, int last) {
  if (role == 0) return {-1, -1, last > 0 ? static_cast<int>(std::bit_floor(static_cast<unsigned>(last))) : -1};
  const int bit = role & -role;  // the lowest
  const int above = (role ^ bit) | (bit << 1);
  RolePlace place{above > last ? role ^ bit : above, bit > 1 ? role - bit / 2 : -1, -1};
  for (int reach = bit / 2; reach > 0 && place.higher < 0; reach /= 2) {
    if (role + reach <= last) place.higher = role + reach;
  }
  return place;
}

/// The place in the first tree that `role` takes in the second one, and back.
int to_second(int role, int last) {
  if (role == 0) return 0;
  if (last % 2 == 0) return last + 1 - role;
  return role == 1 ? last : role - 1;
}
int from_second(int place, int last) {
  if (place == 0) return 0;
  if (last % 2 == 0) return last + 1 - place;
  return place == last ? 1 : place + 1;
}

/// This rank's places in both.
std::vector<Tree> trees_of(const Problem& problem, int root) {
  const int p = problem.world_size;
  const int last = p - 1;
  const int role = (problem.rank - root + p) % p;
  std::vector<Tree> trees(2);
  for (const bool second : {false, true}) {
    const RolePlace place = place_of_role(second ? to_second(role, last) : role, last);
    const auto rank_of = [&](int other) { return (root + (second ? from_second(other, last) : other)) % p; };
    Tree& tree = trees[second];
    if (place.parent >= 0) tree.parent = rank_of(place.parent);
    if (place.lower >= 0) tree.children.push_back({rank_of(place.lower), true});
    if (place.higher >= 0) tree.children.push_back({rank_of(place.higher), false});
  }
  return trees;
}

}  // namespace

Schedule double_tree_broadcast(const Problem& problem) {
  return broadcast_along(trees_of(problem, problem.root), problem, "double_tree");
}

Schedule double_tree_reduce(const Problem& problem) {
  return reduce_along(trees_of(problem, problem.root), problem, "double_tree");
}

Schedule double_tree_all_reduce(const Problem& problem) {
  const auto lag = 4 * static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(problem.world_size - 1)));
  return all_reduce_along(trees_of(problem, 0), problem, "double_tree", lag);
}

}  // namespace tutti::comm::algorithms
