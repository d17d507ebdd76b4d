// TransportFactory: makes the transports of a process's groups, of the first one and those split from it.
//
// One factory belongs to one rank of one world. Thread-safety: make() may be called by any thread.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/transport/transport.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::comm {

/// One group as one of its ranks sees it. Equal on all ranks but for `rank`.
struct GroupMembers {
  std::string name;
  int rank = 0;                  // this process's, in the group
  std::vector<int> world_ranks;  // of all ranks of the group, in the group's order

  /// Whether it has all ranks of the world in their order, so that each rank has one number only.
  bool is_whole_world(int world_size) const {
    if (static_cast<int>(world_ranks.size()) != world_size) return false;
    for (int i = 0; i < world_size; ++i)
      if (world_ranks[static_cast<std::size_t>(i)] != i) return false;
    return true;
  }
};

class TransportFactory {
 public:
  virtual ~TransportFactory() = default;

  /// Of the whole world: ranks of one host may wait for each other. Of a sub-group: the other members may make theirs
  /// later, or never, which shows when something is sent to them. Throws Timeout, PeerLost, InvalidArgument, System.
  virtual std::unique_ptr<Transport> make(const GroupMembers& members, Deadline deadline) = 0;

  /// The store prefix of a group of this name: apart from an earlier one's, that may have failed.
  virtual std::string key_of(const std::string& group) const { return group; }
};

}  // namespace tutti::comm
