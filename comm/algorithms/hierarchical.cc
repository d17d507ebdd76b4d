// Hierarchical: all_reduce, broadcast and reduce that cross between hosts as seldom as they can.
//
// Idea: messages within a host are cheap, those between hosts are not. Each host has a leader (the root on its own
// host, elsewhere its lowest rank). What a host has to say is put together within the host, the leaders alone exchange
// it, and what comes of it is spread within each host. Every phase is one of the flat algorithms over some of the
// ranks.
//
// hierarchical_split_all_reduce keeps every rank busy in all phases: the vector is cut into l parts, as many as the
// smallest host has ranks. Part c is summed within each host to its rank number c, all-reduced among the ranks number c
// of all hosts, and spread within each host from there. Within a host these are l chains at once, which is the ring's
// reduce-scatter and all-gather where all hosts have l ranks.
//
// Nomenclature: p ranks, n elements per rank; h hosts (Problem::hosts; ranks may lie in any order, hosts differ in
// size), m = ranks of the largest host, l = of the smallest.
//   all_reduce  binomial reduce, recursive doubling among leaders, binomial broadcast
//   split       chain reduces, Rabenseifner among equals, chain broadcasts
//   broadcast   binomial among leaders, then within hosts; reduce is the reverse
//
// Determinism:    the order of operands follows the hosts, not the ranks: the operator need be commutative. all_reduce
//                 gives equal bits on all ranks, which depend on the layout.
// Source:         Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan: Exploiting hierarchy in parallel computer
//                 networks to optimize collective operation performance. IPDPS (2000).
//                 https://doi.org/10.1109/IPDPS.2000.846009; split: Jia et al.: Highly scalable deep learning training
//                 system. (2018). arXiv:1807.11205
#include <tutti/comm/algorithms/builder.h>
#include <tutti/comm/algorithms/hosts.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

namespace tutti::comm::algorithms {
namespace {

/// Where a buffer of a spliced schedule lies in those of the whole.
struct Place {
  BufferId buffer;
  std::size_t offset = 0;
};

using Mapping = std::array<Place, 3>;  // of Input, Output and Scratch

Slice mapped(const Slice& slice, const Mapping& mapping) {
  const Place& place = mapping[static_cast<std::size_t>(slice.buffer)];
  return {place.buffer, place.offset + slice.offset, slice.count};
}

/// Joins schedules of parts of the world to one of the whole world. What a later one does waits for what an earlier one
/// did to the same elements, and for nothing else: while one segment is exchanged between hosts the next may still be
/// summed within them.
class Splicer {
 public:
  explicit Splicer(std::string_view algorithm) : builder_(algorithm) {}

  /// Appends this rank's `part`, whose rank i is ranks[i] of the world. Copies that the mapping turns into copies onto
  /// themselves are left out. Within `part` the mapping must not make two steps meet that were apart.
  void add(const Schedule& part, const std::vector<int>& ranks, const Mapping& mapping) {
    std::vector<Builder::After> stands_for(part.steps.size());  // of the part's steps: those of the whole
    std::vector<Access> made;
    for (std::size_t i = 0; i < part.steps.size(); ++i) {
      Step step = part.steps[i];
      Builder::After after;
      for (const auto earlier : step.after) {
        after.insert(after.end(), stands_for[earlier].begin(), stands_for[earlier].end());
      }
      const bool reads = has_source(step), writes = has_target(step);
      if (reads) step.source = mapped(step.source, mapping);
      if (writes) step.target = mapped(step.target, mapping);
      if (step.kind == Step::Kind::Copy && step.source == step.target) {
        stands_for[i] = std::move(after);
        continue;
      }
      if (reads) wait_for_conflicts({step.source, false}, after);
      if (writes) wait_for_conflicts({step.target, true}, after);
      if (step.peer >= 0) step.peer = ranks[static_cast<std::size_t>(step.peer)];
      step.after = std::move(after);
      const Slice source = step.source;
      const Slice target = step.target;
      const Builder::Index index = builder_.add(std::move(step));
      stands_for[i] = {index};
      if (reads) made.push_back({source, false, index});
      if (writes) made.push_back({target, true, index});
    }
    for (const Access& access : made) remember(access);
  }

  Schedule finish() { return builder_.finish(scratch_count_); }

 private:
  struct Access {
    Slice slice;
    bool writes = false;
    Builder::Index step = 0;
  };

  void wait_for_conflicts(const Access& access, Builder::After& after) const {
    const auto buffer = static_cast<std::size_t>(access.slice.buffer);
    const std::size_t begin = access.slice.offset;
    const std::size_t end = begin + access.slice.count;
    const auto& known = accesses_[buffer];
    for (auto it = known.lower_bound(begin - std::min(begin, longest_[buffer])); it != known.end(); ++it) {
      if (it->first >= end) return;
      const Access& earlier = it->second;
      if (earlier.slice.offset + earlier.slice.count <= begin || !(earlier.writes || access.writes)) continue;
      if (std::find(after.begin(), after.end(), earlier.step) == after.end()) after.push_back(earlier.step);
    }
  }

  void remember(const Access& access) {
    const auto buffer = static_cast<std::size_t>(access.slice.buffer);
    accesses_[buffer].emplace(access.slice.offset, access);
    longest_[buffer] = std::max(longest_[buffer], access.slice.count);
    if (access.slice.buffer == BufferId::Scratch) {
      scratch_count_ = std::max(scratch_count_, access.slice.offset + access.slice.count);
    }
  }

  Builder builder_;
  std::size_t scratch_count_ = 0;
  std::array<std::multimap<std::size_t, Access>, 3> accesses_;  // of earlier parts, per buffer, by offset
  std::array<std::size_t, 3> longest_{};
};

/// The problem of some of the ranks, as the one at `self` of their list sees it; `root` is a place in it, too.
Problem part_of(const Problem& whole, OpKind op, std::size_t ranks, int self, std::size_t count, int root) {
  return {.op = op,
          .rank = self,
          .world_size = static_cast<int>(ranks),
          .count = count,
          .root = root,
          .segment_count = whole.segment_count};
}

/// All three buffers in one place: for sums that may be made where the data are.
Mapping all_in(BufferId buffer, std::size_t offset = 0) {
  return {{{buffer, offset}, {buffer, offset}, {buffer, offset}}};
}

/// Output, for Input too, and Scratch for Scratch.
Mapping in_place(std::size_t offset = 0) {
  return {{{BufferId::Output, offset}, {BufferId::Output, offset}, {BufferId::Scratch}}};
}

/// The phases in which the ranks of a host, or the leaders, do `op` together, from or to the leader or the root.
class Phases {
 public:
  Phases(std::string_view name, const Problem& problem, Hosts hosts, int root)
      : problem_(problem), root_(root), hosts_(std::move(hosts)), whole_(name) {}

  void within_hosts(OpKind op, Algorithm algorithm, const Mapping& mapping) {
    add(op, algorithm, mapping, hosts_.local(), hosts_.place, hosts_.leader_place());
  }
  void among_leaders(OpKind op, Algorithm algorithm, const Mapping& mapping) {
    if (hosts_.is_leader()) add(op, algorithm, mapping, hosts_.leaders, hosts_.mine, hosts_.host_of(root_));
  }
  Schedule finish() { return whole_.finish(); }

 private:
  void add(OpKind op, Algorithm algorithm, const Mapping& mapping, const std::vector<int>& ranks, int self, int root) {
    whole_.add(algorithm(part_of(problem_, op, ranks.size(), self, problem_.count, root)), ranks, mapping);
  }

  const Problem& problem_;
  const int root_;
  const Hosts hosts_;
  Splicer whole_;
};

Schedule all_reduce_in_groups(std::string_view name, const Problem& problem, Hosts groups, Algorithm among) {
  Phases phases(name, problem, std::move(groups), 0);
  phases.within_hosts(OpKind::Reduce, binomial_reduce, all_in(BufferId::Output));
  phases.among_leaders(OpKind::AllReduce, among, in_place());
  phases.within_hosts(OpKind::Broadcast, binomial_broadcast, in_place());
  return phases.finish();
}

}  // namespace

Hosts::Hosts(const Problem& problem, int root) {
  std::map<int, std::size_t> number_of;  // by the caller's index of a host
  for (int rank = 0; rank < problem.world_size; ++rank) {
    const int host = problem.hosts.empty() ? 0 : problem.hosts[static_cast<std::size_t>(rank)];
    const auto [it, is_new] = number_of.try_emplace(host, members.size());
    if (is_new) {
      members.emplace_back();
      leaders.push_back(rank);
    }
    if (rank == problem.rank) {
      mine = static_cast<int>(it->second);
      place = static_cast<int>(members[it->second].size());
    }
    if (rank == root) leaders[it->second] = rank;
    members[it->second].push_back(rank);
  }
}

int Hosts::leader_place() const {
  const int leader = leaders[static_cast<std::size_t>(mine)];
  return static_cast<int>(std::find(local().begin(), local().end(), leader) - local().begin());
}

int Hosts::host_of(int rank) const {
  const auto has_it = [&](const std::vector<int>& ranks) {
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  };
  return static_cast<int>(std::find_if(members.begin(), members.end(), has_it) - members.begin());
}

int Hosts::smallest() const { return static_cast<int>(std::ranges::min(members, {}, &std::vector<int>::size).size()); }

int Hosts::largest() const { return static_cast<int>(std::ranges::max(members, {}, &std::vector<int>::size).size()); }

std::vector<int> Hosts::equals() const {
  std::vector<int> result;
  for (const auto& ranks : members) result.push_back(ranks[static_cast<std::size_t>(place)]);
  return result;
}

Schedule hierarchical_broadcast(const Problem& problem) {
  Phases phases("hierarchical", problem, Hosts(problem, problem.root), problem.root);
  phases.among_leaders(OpKind::Broadcast, binomial_broadcast, in_place());
  phases.within_hosts(OpKind::Broadcast, binomial_broadcast, in_place());
  return phases.finish();
}

Schedule hierarchical_reduce(const Problem& problem) {
  Phases phases("hierarchical", problem, Hosts(problem, problem.root), problem.root);
  const BufferId sum = problem.rank == problem.root ? BufferId::Output : BufferId::Scratch;
  phases.within_hosts(OpKind::Reduce, binomial_reduce, {{{BufferId::Input}, {sum}, {BufferId::Scratch}}});
  phases.among_leaders(OpKind::Reduce, binomial_reduce, all_in(sum));
  return phases.finish();
}

Schedule hierarchical_all_reduce(const Problem& problem) {
  return all_reduce_in_groups("hierarchical", problem, Hosts(problem, 0), recursive_doubling_all_reduce);
}

Schedule fold(std::string_view name, const Problem& problem, Algorithm among) {
  const auto extra = problem.world_size - static_cast<int>(std::bit_floor(static_cast<unsigned>(problem.world_size)));
  Problem in_groups = problem;
  in_groups.hosts.clear();
  for (int rank = 0; rank < problem.world_size; ++rank)
    in_groups.hosts.push_back(rank < 2 * extra ? rank / 2 : rank - extra);
  Hosts groups(in_groups, 0);
  for (std::size_t i = 0; i < groups.members.size(); ++i) groups.leaders[i] = groups.members[i].back();
  return all_reduce_in_groups(name, problem, std::move(groups), among);
}

Schedule hierarchical_split_all_reduce(const Problem& problem) {
  Splicer whole("hierarchical_split");
  const Hosts hosts(problem, 0);
  const auto& local = hosts.local();
  const int m = static_cast<int>(local.size());
  const int parts = hosts.smallest();
  const auto part = [&](int c) { return chunk_of(problem.count, parts, c); };
  // Messages to one neighbour keep their order, so each rank begins with the parts that are ready first: those whose
  // chain starts here, then those that started one rank further up, ...
  for (int i = 1; i <= m; ++i) {
    const int c = (hosts.place + i) % m;
    if (c >= parts) continue;
    const Problem within = part_of(problem, OpKind::Reduce, local.size(), hosts.place, part(c).count, c);
    whole.add(chain_reduce(within), local, all_in(BufferId::Output, part(c).offset));
  }
  if (hosts.place < parts) {
    const Range mine = part(hosts.place);
    const Problem among = part_of(problem, OpKind::AllReduce, hosts.members.size(), hosts.mine, mine.count, 0);
    whole.add(rabenseifner_all_reduce(among), hosts.equals(), in_place(mine.offset));
  }
  for (int i = 0; i < m; ++i) {
    const int c = (hosts.place + m - i) % m;
    if (c >= parts) continue;
    const Problem within = part_of(problem, OpKind::Broadcast, local.size(), hosts.place, part(c).count, c);
    whole.add(chain_broadcast(within), local, in_place(part(c).offset));
  }
  return whole.finish();
}

}  // namespace tutti::comm::algorithms
