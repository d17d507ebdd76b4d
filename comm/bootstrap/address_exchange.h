// How the ranks of a group exchange their addresses, in the store in which they have met.
//
// Under the group's name: "address/<rank>", "arrived" (how many have come), "addresses/<formation>": a line for each
// rank (rank_addresses.h). No rank waits for one whose process the store knows to be gone.
//
// Thread-safety: functions of their arguments and the store.
#pragma once

#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/settings.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::comm {

struct Addresses {
  std::vector<PeerAddress> peers;
  std::vector<std::string> hosts;  // host_identity() of each rank
  std::int64_t formation = 0;      // how many groups of this name there were before
};

/// Every rank publishes its address and counts itself; the last one joins all addresses to one table, which the others
/// wait for: a few round trips and one key each, however many ranks there are. When the ranks form a group of this name
/// once more, the count gives it a table of its own.
/// Throws Timeout naming the ranks that did not come, PeerLost naming one that came and died, Mismatch where settings
/// differ, the same text on all ranks; Protocol.
Addresses exchange_addresses(const MeetingPlace& place, const World& world, const std::string& group,
                             const std::vector<std::string>& endpoints, const Settings& settings,
                             std::chrono::milliseconds timeout, Deadline deadline);

/// Waits for a key that a rank of this host sets. Throws Timeout, and PeerLost if a rank is gone.
void await_key(Store& store, const World& world, const std::string& group, const std::string& key, Deadline deadline);

}  // namespace tutti::comm
