// join: the ranks of one group that run on one host agree to share memory.
//
// Ranks are on one host if they have the same host_identity(). The first of them to come makes the segment and
// publishes where it is; the others map it. Keys, under "<group>/shm/<lowest rank>/": "first" (the segment's address);
// for join_neighbours() also "mapped" (a count), "verdict".
#pragma once

#include <tutti/comm/store/store.h>
#include <tutti/comm/transport/shm/neighbours.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tutti::comm {

/// Equal for processes that can open each other's memory: same boot of the same machine, same user, same namespaces of
/// processes and of network. One word.
std::string host_identity();

/// `identities` holds that of each rank of the group. Null if this rank has no neighbours, or if not all of them could
/// map the segment: then all of that host use TCP, and a log line says why. `await` waits for a key, and throws when a
/// rank is lost or the time is over. Throws as the store.
std::unique_ptr<Neighbours> join_neighbours(Store& store, const std::string& group, int rank,
                                            const std::vector<std::string>& identities, Deadline deadline,
                                            const std::function<void(const std::string& key)>& await);

/// The same for a group split from one whose ranks are known to share memory, without waiting for all. `ranks`: of the
/// group, on this host, ascending, this one among them. Null for one rank, and if the first could not make the segment:
/// then all use TCP, and say why. Throws PeerLost if the first has come and gone, System if this rank cannot map what
/// the first made, and as the store.
std::unique_ptr<Neighbours> join_known_neighbours(Store& store, const std::string& group, int rank,
                                                  const std::vector<int>& ranks, Deadline deadline);

}  // namespace tutti::comm
