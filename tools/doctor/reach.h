// The ranks of a job, and whether they can connect to each other, between the very hosts and addresses they run on?
//
// Every rank opens a port (Answerer) and calls those of others (check_reach); a host alone calls itself. Forming a
// group would find the same, but stop at the first closed door; this goes on and names each.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/doctor/finding.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace tutti::doctor {

/// What ranks tell each other about themselves, through the job's store.
struct RankCard {
  int rank = 0;
  std::string host;      // its name
  std::string identity;  // equal for ranks that share a host
  int pid = 0;
  std::string address;  // of this host, on the way to the store; as a number
  std::string interface {};
  std::uint16_t port = 0;  // where this rank answers with ...
  std::string token{};     // ... this, so that a namesake elsewhere is found out
};

/// Everything but port and token. Throws comm::Error{InvalidArgument} where TUTTI_IFACE fits no interface.
RankCard own_card(const comm::World& world);

/// The cards of all ranks, by rank.
std::vector<RankCard> exchange_cards(comm::Store& store, int world_size, const RankCard& own, comm::Deadline deadline);

/// The lowest rank of each host, ascending.
std::vector<int> host_leaders(const std::vector<RankCard>& cards);

/// "rank 2 (alpha, 10.0.0.2)".
std::string described(const RankCard& card);

/// Listens on a free port of `address` and answers every caller with `token`, in a thread of its own, until destroyed.
/// The constructor throws comm::Error if the port cannot be opened.
class Answerer {
 public:
  Answerer(const std::string& address, std::string token);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void answer();

  const std::string token_;
  comm::Socket listener_;
  comm::Socket stop_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// What is said at a port. Throws comm::Error.
std::string call(const std::string& address, std::uint16_t port, comm::Deadline deadline);

/// Whom rank `caller` calls: everybody in worlds up to 16 ranks; else the next rank, and for a host's lowest rank those
/// of the other hosts.
std::vector<int> whom_to_call(const std::vector<RankCard>& cards, int caller);

/// Calls them, one after the other. A failure for each that is not reached within `patience` or is somebody else; one
/// finding that all is well if there is none. After four failures it gives up on the rest, and says so.
Findings check_reach(const std::vector<RankCard>& cards, int caller, std::chrono::milliseconds patience);

}  // namespace tutti::doctor
