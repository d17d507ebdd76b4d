// RankCard: what the ranks of a doctor's visit tell each other about themselves, through the job's store.
//
// Values; the functions that take a store are to be called by all ranks and wait for all of them, up to the deadline.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::doctor {

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

}  // namespace tutti::doctor
