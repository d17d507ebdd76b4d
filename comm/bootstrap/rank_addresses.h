// Where a rank can be reached: which addresses it listens at, and how the ranks of a group exchange them in the store
// in which they have met. Internal to comm.
//
// Under the group's name: "address/<rank>", "arrived" (how many have come), "addresses/<formation>": a line for each
// rank. No rank waits for one whose process the store knows to be gone.
//
// Thread-safety: values, and functions of their arguments and the store.
#pragma once

#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/settings.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <tutti/comm/wire/local_address.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::comm {

inline constexpr char kNoUcx[] = "-";

struct RankAddress {
  std::vector<std::string> endpoints;  // "10.0.0.2:40913", best first
  std::string host;                    // its name, for texts
  std::string pid;
  std::string identity;      // host_identity()
  std::string ucx = kNoUcx;  // where its BulkEngine is reached
  Settings settings{};       // to be compared
};

/// One line of words, as it goes through the store. from_line() throws Protocol, quoting what it cannot read.
std::string to_line(const RankAddress& address);
RankAddress from_line(const std::string& line);

/// The network that a host_identity() belongs to: equal for processes that have the same interfaces, in whatever
/// containers and under whatever users they run.
std::string network_of(const std::string& identity);

struct PublishOptions {
  std::string bind_address{};   // if set, this and nothing else
  std::string interface {};     // ProcessGroupOptions::interface; "" = TUTTI_IFACE
  std::string towards_store{};  // "" where the ranks meet in a file
};

/// This rank's addresses by choose_addresses() (local_address.h), bind_address apart. Throws InvalidArgument.
AddressChoice own_addresses(bool several_hosts, const PublishOptions& options);

/// Numeric addresses of this host at which ranks can reach it, best first: of `several_hosts`, or of this one alone.
std::vector<std::string> reachable_addresses(bool several_hosts);

/// The addresses that this rank shall listen at, best first: bind_address, or own_addresses(). Logs them with the
/// reasons, and warns where a faster interface is passed over. Throws InvalidArgument.
std::vector<std::string> addresses_to_publish(const World& world, const PublishOptions& options);

/// Removes what cannot work: addresses that several hosts have. Throws System if a rank is left with loopback addresses
/// in a world of several hosts, InvalidArgument, naming two ranks, if it is left with none.
void keep_reachable(int rank, std::vector<RankAddress>& ranks);

/// Where rank 0 listens as the store's server: at MASTER_ADDR. Where there are other hosts, at all interfaces ("") if
/// that is a name for a loopback address here (many systems have "127.0.1.1 <own name>" in /etc/hosts), with a warning,
/// or a name with addresses of both families, of which others may have only the other one.
std::string store_bind_address(const World& world);

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
                             const std::vector<std::string>& endpoints, const std::string& ucx,
                             const Settings& settings, std::chrono::milliseconds timeout, Deadline deadline);

/// Waits for a key that a rank of this host sets. Throws Timeout, and PeerLost if a rank is gone.
void await_key(Store& store, const World& world, const std::string& group, const std::string& key, Deadline deadline);

}  // namespace tutti::comm
