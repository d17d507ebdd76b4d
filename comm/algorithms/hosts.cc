#include <tutti/comm/algorithms/hosts.h>

#include <algorithm>
#include <map>

namespace tutti::comm::algorithms {

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

int Hosts::smallest() const {
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  return static_cast<int>(std::min_element(members.begin(), members.end(), smaller)->size());
}

std::vector<int> Hosts::equals() const {
  std::vector<int> result;
  for (const auto& ranks : members) result.push_back(ranks[static_cast<std::size_t>(place)]);
  return result;
}

std::size_t Hosts::blocks_before(int host) const {
  std::size_t blocks = 0;
  for (int i = 0; i < host; ++i) blocks += members[static_cast<std::size_t>(i)].size();
  return blocks;
}

bool Hosts::in_rank_order() const {
  int next = 0;
  for (const auto& ranks : members) {
    for (const int rank : ranks) {
      if (rank != next++) return false;
    }
  }
  return true;
}

}  // namespace tutti::comm::algorithms
