#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace tutti::comm {
namespace {

constexpr std::chrono::seconds kLookUpLimit(5);

std::string rank_of(int rank, std::size_t world_size) {
  return "rank " + std::to_string(rank) + "/" + std::to_string(world_size);
}

/// A loopback address is of no use to ranks of other hosts. All ranks decide alike here.
void refuse_loopback_across_hosts(int self, const std::vector<RankAddress>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!std::ranges::all_of(ranks[rank].endpoints, is_loopback_endpoint)) continue;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (network_of(ranks[other].identity) == network_of(ranks[rank].identity)) continue;
      throw Error(ErrorCode::System, rank_of(self, ranks.size()) + ": rank " + std::to_string(rank) + " (host " +
                                         ranks[rank].host + ") listens on " + ranks[rank].endpoints.front() +
                                         " only, which rank " + std::to_string(other) + " (host " + ranks[other].host +
                                         ") cannot reach: name an interface between the hosts by TUTTI_IFACE "
                                         "(ProcessGroupOptions::interface) or an address by "
                                         "ProcessGroupOptions::bind_address; is that host's network up?");
    }
  }
}

}  // namespace

std::string to_line(const RankAddress& address) {
  std::string text;
  for (const std::string& endpoint : address.endpoints) text += (text.empty() ? "" : ",") + endpoint;
  return text + " " + address.host + " " + address.pid + " " + address.identity + " " + to_text(address.settings);
}

RankAddress from_line(const std::string& line) {
  RankAddress address;
  std::istringstream words(line);
  std::string endpoints, settings;
  words >> endpoints >> address.host >> address.pid >> address.identity >> std::ws;
  if (!std::getline(words, settings)) settings.clear();
  address.settings = settings_from(settings);
  std::istringstream list(endpoints);
  for (std::string endpoint; std::getline(list, endpoint, ',');) address.endpoints.push_back(endpoint);
  if (address.endpoints.empty() || settings.empty())
    throw Error(ErrorCode::Protocol,
                "the store holds \"" + printable(line, 200) + "\" where a rank's address should be");
  return address;
}

std::string network_of(const std::string& identity) {
  return identity.substr(0, identity.find(':')) + identity.substr(std::min(identity.rfind(':'), identity.size()));
}

AddressChoice own_addresses(bool several_hosts, const PublishOptions& options) {
  const char* environment = std::getenv("TUTTI_IFACE");
  const bool from_option = !options.interface.empty();
  return choose_addresses({.interfaces = interface_addresses(),
                           .towards_store = options.towards_store,
                           .default_route = default_route_address(),
                           .wanted = from_option ? options.interface : environment ? environment : "",
                           .wanted_by = from_option ? "ProcessGroupOptions::interface" : "TUTTI_IFACE",
                           .several_hosts = several_hosts});
}

std::vector<std::string> addresses_to_publish(const World& world, const PublishOptions& options) {
  if (!options.bind_address.empty()) return {options.bind_address};
  const AddressChoice choice = own_addresses(world.local_world_size < world.world_size, options);
  const std::string self = rank_of(world.rank, static_cast<std::size_t>(world.world_size));
  log(LogLevel::Info, self + " listens at " + choice.text());
  if (!choice.slow.empty()) log(LogLevel::Warn, self + ": " + choice.slow);
  std::vector<std::string> addresses;
  for (const ChosenAddress& one : choice.chosen) addresses.push_back(one.address);
  return addresses;
}

void keep_reachable(int rank, std::vector<RankAddress>& ranks) {
  refuse_loopback_across_hosts(rank, ranks);
  std::vector<std::vector<std::string>> endpoints;
  std::vector<std::string> networks, names;
  for (const RankAddress& one : ranks) {
    endpoints.push_back(one.endpoints);
    networks.push_back(network_of(one.identity));
    names.push_back(one.host + ", pid " + one.pid);
  }
  remove_ambiguous(endpoints, networks, names);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].endpoints = std::move(endpoints[i]);
}

std::string store_bind_address(const World& world) {
  if (world.local_world_size == world.world_size || is_loopback_address(world.master_addr) ||
      world.master_addr == "localhost")
    return world.master_addr;
  std::string error;
  const auto endpoints = resolve_within(world.master_addr, world.master_port, Deadline::after(kLookUpLimit), error);
  const auto is_own = [](const Endpoint& endpoint) { return is_loopback_address(endpoint.host()); };
  const std::string listens = ": the store listens on all interfaces, port " + std::to_string(world.master_port);
  if (!endpoints.empty() && std::ranges::all_of(endpoints, is_own)) {
    log(LogLevel::Warn, "MASTER_ADDR " + world.master_addr + " is " + endpoints.front().host() +
                            " on this host (see /etc/hosts), where no other host can reach it" + listens);
    return "";
  }
  if (std::ranges::any_of(endpoints, [&](const Endpoint& one) { return one.family() != endpoints[0].family(); })) {
    log(LogLevel::Info, "MASTER_ADDR " + world.master_addr + " has addresses of IPv4 and of IPv6" + listens);
    return "";
  }
  return world.master_addr;
}

}  // namespace tutti::comm
