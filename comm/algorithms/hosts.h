// Hosts: which ranks share a host, from Problem::hosts; and an all_reduce in groups. Internal to comm/algorithms;
// hierarchical.cc explains both.
#pragma once

#include <tutti/comm/algorithms/algorithms.h>

#include <string_view>
#include <vector>

namespace tutti::comm::algorithms {

/// Hosts are numbered in the order of their lowest ranks; the ranks of a host stand in rising order. No hosts in the
/// problem means one host for all ranks.
struct Hosts {
  /// `root` is the leader of its host; elsewhere the lowest rank is.
  Hosts(const Problem& problem, int root);

  std::vector<std::vector<int>> members;  // [host]: ranks
  std::vector<int> leaders;               // [host]: rank
  int mine = 0;                           // this rank's host
  int place = 0;                          // where this rank stands in members[mine]

  const std::vector<int>& local() const { return members[static_cast<std::size_t>(mine)]; }
  bool is_leader() const { return leader_place() == place; }
  int leader_place() const;         // of this host, in local()
  int host_of(int rank) const;      // its number here
  int smallest() const;             // ranks of the host that has fewest
  int largest() const;              // of the one that has most
  std::vector<int> equals() const;  // [host]: the rank that stands at `place`; needs place < smallest()
};

/// all_reduce for any number of ranks by `among`, which does powers of two: the lowest ranks are joined in pairs, so
/// many that a power of two of pairs and single ranks is left. The higher rank of a pair adds what both have, takes
/// part in `among`, and passes on the result.
Schedule fold(std::string_view name, const Problem& problem, Algorithm among);

}  // namespace tutti::comm::algorithms
