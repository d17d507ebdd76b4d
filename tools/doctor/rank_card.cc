#include <tutti/comm/base/host_name.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/doctor/rank_card.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

namespace tutti::doctor {
namespace {

std::string card_key(int rank) { return "doctor/card/" + std::to_string(rank); }

/// This end of the way to `host`; "" if there is none.
std::string way_to(const std::string& host) {
  std::string error;
  for (const comm::Endpoint& endpoint : comm::resolve(host, 9, comm::ResolveFor::Connecting, error)) {
    const std::string source = comm::route_source(endpoint.host());
    if (!source.empty()) return source;
  }
  return {};
}

}  // namespace

RankCard own_card(const comm::World& world) {
  RankCard card{world.rank, comm::host_name(), comm::host_identity(), static_cast<int>(::getpid()), ""};
  const bool several_hosts = world.local_world_size < world.world_size;
  comm::PublishOptions options;
  if (!world.master_addr.empty()) options.towards_store = way_to(world.master_addr);
  const comm::ChosenAddress best = comm::own_addresses(several_hosts, options).chosen.front();
  card.address = best.address;
  card.interface = best.interface;
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
