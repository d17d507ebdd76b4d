#include <sys/socket.h>
#include <tutti/comm/bootstrap/local_address.h>
#include <tutti/comm/store/socket.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/tools/doctor/host_checks.h>
#include <tutti/tools/doctor/rank_card.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tutti::doctor {
namespace {

std::string card_key(int rank) { return "doctor/card/" + std::to_string(rank); }

/// Connecting a datagram socket sends nothing, but the kernel chooses the way and with it our address.
std::string address_towards(const std::string& host) {
  std::string error;
  for (const comm::Endpoint& endpoint : comm::resolve(host, 9, comm::ResolveFor::Connecting, error)) {
    const comm::Socket socket(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() >= 0 && ::connect(socket.get(), endpoint.address(), endpoint.length) == 0)
      return comm::local_endpoint(socket.get()).host();
  }
  return {};
}

std::string interface_of(const std::string& address) {
  for (const Interface& interface : list_interfaces())
    if (std::find(interface.addresses.begin(), interface.addresses.end(), address) != interface.addresses.end())
      return interface.name;
  return "no interface known";
}

}  // namespace

RankCard own_card(const comm::World& world) {
  char host_name[256] = {};
  ::gethostname(host_name, sizeof host_name - 1);
  RankCard card{world.rank, host_name, comm::host_identity(), static_cast<int>(::getpid()), ""};
  if (!world.master_addr.empty()) card.address = address_towards(world.master_addr);
  if (card.address.empty()) card.address = comm::default_route_address();
  if (card.address.empty()) card.address = "127.0.0.1";
  card.interface = interface_of(card.address);
  return card;
}

std::vector<RankCard> exchange_cards(comm::Store& store, int world_size, const RankCard& own, comm::Deadline deadline) {
  const nlohmann::json written{{"host", own.host},          {"identity", own.identity}, {"pid", own.pid},
                               {"address", own.address},    {"port", own.port},         {"token", own.token},
                               {"interface", own.interface}};
  store.set(card_key(own.rank), written.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), deadline);
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(card_key(rank));
  std::vector<RankCard> cards;
  for (const std::string& text : store.multi_get(keys, deadline)) {
    const auto json = nlohmann::json::parse(text);
    cards.push_back({static_cast<int>(cards.size()), json.at("host"), json.at("identity"), json.at("pid"),
                     json.at("address"), json.at("interface"), json.at("port"), json.at("token")});
  }
  return cards;
}

std::vector<int> host_leaders(const std::vector<RankCard>& cards) {
  std::set<std::string> seen;
  std::vector<int> leaders;
  for (const RankCard& card : cards)
    if (seen.insert(card.identity).second) leaders.push_back(card.rank);
  return leaders;
}

std::string described(const RankCard& card) {
  return "rank " + std::to_string(card.rank) + " (" + card.host + ", " + card.address + ")";
}

}  // namespace tutti::doctor
