#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <sstream>

namespace tutti::comm {
namespace {

constexpr std::chrono::seconds kLookUpLimit(5);
constexpr std::chrono::milliseconds kLookAfterTheLost(250);
constexpr std::size_t kMissingRanksShown = 16;

std::vector<std::string> addresses_of(const AddressChoice& choice) {
  std::vector<std::string> addresses;
  for (const ChosenAddress& one : choice.chosen) addresses.push_back(one.address);
  return addresses;
}

std::string name_of(const RankAddress& rank) { return rank.host + ", pid " + rank.pid; }

/// A loopback address is of no use to ranks of other hosts. All ranks decide alike here.
void refuse_loopback_across_hosts(int self, const std::vector<RankAddress>& ranks) {
  std::vector<std::string> networks;
  for (const RankAddress& rank : ranks) networks.push_back(network_of(rank.identity));
  if (std::ranges::all_of(networks, [&](const std::string& one) { return one == networks.front(); })) return;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!std::ranges::all_of(ranks[rank].endpoints, is_loopback_address, address_of_endpoint)) continue;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (networks[other] == networks[rank]) continue;
      throw Error(ErrorCode::System, "rank ", self, "/", ranks.size(), ": rank ", rank, " (host ", ranks[rank].host,
                  ") listens on ", ranks[rank].endpoints.front(), " only, which rank ", other, " (host ",
                  ranks[other].host,
                  ") cannot reach: name an interface between the hosts by TUTTI_IFACE "
                  "(ProcessGroupOptions::interface) or an address by "
                  "ProcessGroupOptions::bind_address; is that host's network up?");
    }
  }
}

/// Addresses that several hosts have lead each of them to itself. All ranks remove the same ones.
void remove_ambiguous(std::vector<RankAddress>& ranks) {
  const auto apart = [&](std::size_t a, std::size_t b) {
    return network_of(ranks[a].identity) != network_of(ranks[b].identity);
  };
  struct Owner {
    std::size_t rank;
    std::optional<std::size_t> other;  // of another host
  };
  std::map<std::string, Owner> owners;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const std::string& endpoint : ranks[rank].endpoints) {
      const auto [known, is_new] = owners.try_emplace(address_of_endpoint(endpoint), Owner{rank, std::nullopt});
      if (!is_new && !known->second.other && apart(known->second.rank, rank)) known->second.other = rank;
    }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string>& endpoints = ranks[rank].endpoints;
    const std::string first = address_of_endpoint(endpoints.front());
    std::erase_if(endpoints, [&](const auto& endpoint) { return owners.at(address_of_endpoint(endpoint)).other; });
    if (!endpoints.empty()) continue;
    const Owner& owner = owners.at(first);
    const std::size_t other = apart(owner.rank, rank) ? owner.rank : *owner.other;
    refuse("rank ", rank, " (", name_of(ranks[rank]), ") can be reached at ", first, " only, which rank ", other,
           " on another host (", name_of(ranks[other]),
           ") has too, so that it leads each of them to itself: choose the interface of the network between "
           "the hosts with TUTTI_IFACE (--iface), the same for all ranks");
  }
}

std::string address_key(const std::string& group, int rank) { return group + "/address/" + std::to_string(rank); }

/// All ranks find the same differences, before any of them tries a connection.
void refuse_different_settings(const World& world, const std::string& group, const std::vector<RankAddress>& ranks) {
  std::vector<Settings> settings;
  std::vector<std::string> names;
  for (const RankAddress& rank : ranks) {
    settings.push_back(rank.settings);
    names.push_back(name_of(rank));
  }
  const std::string different = difference(settings, names);
  if (different.empty()) return;
  throw Error(ErrorCode::Mismatch, rank_text(world), ": group '", group,
              "' cannot form: its ranks were started differently: ", different, ": start all ranks alike");
}

/// Ranks of [first, last) whose address is not in the store; skips halves that are complete.
void collect_missing(Store& store, std::span<const std::string> keys, int first, int last, std::vector<int>& missing) {
  if (missing.size() > kMissingRanksShown) return;
  const auto part = keys.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  if (store.check(part, Deadline::after(std::chrono::seconds(2)))) return;
  if (last - first == 1) return missing.push_back(first);
  const int middle = first + (last - first) / 2;
  collect_missing(store, keys, first, middle, missing);
  collect_missing(store, keys, middle, last, missing);
}

/// So that this rank's next attempt meets the others' next. Where the last rank has come meanwhile, it stays.
void withdraw_arrival(Store& store, const World& world, const std::string& group) {
  const Deadline soon = Deadline::after(std::chrono::seconds(2));
  const std::int64_t others = store.add(group + "/arrived", -1, soon) % world.world_size;
  if (others == world.world_size - 1) store.add(group + "/arrived", 1, soon);
}

[[noreturn]] void name_the_missing(const MeetingPlace& place, const World& world, const std::string& group,
                                   std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  std::vector<int> missing;
  collect_missing(*place.client, keys, 0, world.world_size, missing);
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kMissingRanksShown); ++i)
    names += (names.empty() ? "" : ", ") + std::to_string(missing[i]);
  if (missing.size() > kMissingRanksShown) names += ", ...";
  const std::string limit = format("%g s", std::chrono::duration<double>(timeout).count());
  withdraw_arrival(*place.client, world, group);
  throw Error(ErrorCode::Timeout, rank_text(world), ": group '", group, "' did not form within ", limit,
              names.empty() ? ": not all ranks have come again" : ": no sign of rank(s) " + names, " at ", place.where,
              "; were they started, with this ",
              world.store_file.empty() ? "address and job secret?" : "file and job id?");
}

/// Throws PeerLost if the store knows a rank to be gone, and it has not just come back.
void refuse_lost(Store& store, const World& world, const std::string& group, Deadline deadline) {
  const std::vector<std::string> any{kLostRanksKey};
  if (!store.check(any, deadline)) return;
  const Deadline soon = deadline.earlier_of(Deadline::after(kLookAfterTheLost));
  std::string lost;
  try {
    const std::string ranks = store.get(kLostRanksKey, soon);
    const std::string first = ranks.substr(0, ranks.find(' '));
    lost = "lost rank " + first + ": " + store.get(kLostKeyPrefix + first, soon);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) throw;
    return;
  }
  throw Error(ErrorCode::PeerLost, rank_text(world) + ": group '" + group + "' cannot form: " + lost);
}

/// Waits for the table of all addresses.
std::string await_table(const MeetingPlace& place, const World& world, const std::string& group,
                        const std::string& table_key, std::span<const std::string> keys,
                        std::chrono::milliseconds timeout, Deadline deadline) {
  try {
    await_key(*place.client, world, group, table_key, deadline);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) throw;
    name_the_missing(place, world, group, keys, timeout);
  }
  return place.client->get(table_key, deadline);
}

}  // namespace

std::string to_line(const RankAddress& address) {
  std::string text;
  for (const std::string& endpoint : address.endpoints) text += (text.empty() ? "" : ",") + endpoint;
  return text + " " + address.host + " " + address.pid + " " + address.identity + " " + address.ucx + " " +
         to_text(address.settings);
}

RankAddress from_line(const std::string& line) {
  RankAddress address;
  std::istringstream words(line);
  std::string endpoints, settings;
  words >> endpoints >> address.host >> address.pid >> address.identity >> address.ucx >> std::ws;
  if (!std::getline(words, settings)) settings.clear();
  address.settings = settings_from(settings);
  address.endpoints = split(endpoints, ',');
  if (endpoints.empty() || settings.empty())
    throw Error(ErrorCode::Protocol, "the store holds \"", printable(line, 200), "\" where a rank's address should be");
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

std::vector<std::string> reachable_addresses(bool several_hosts) {
  return addresses_of(own_addresses(several_hosts, {}));
}

std::vector<std::string> addresses_to_publish(const World& world, const PublishOptions& options) {
  if (!options.bind_address.empty()) return {options.bind_address};
  const AddressChoice choice = own_addresses(world.local_world_size < world.world_size, options);
  const std::string self = rank_text(world);
  log(LogLevel::Info, self + " listens at " + choice.text());
  if (!choice.slow.empty()) log(LogLevel::Warn, self + ": " + choice.slow);
  return addresses_of(choice);
}

void keep_reachable(int rank, std::vector<RankAddress>& ranks) {
  refuse_loopback_across_hosts(rank, ranks);
  remove_ambiguous(ranks);
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
    log(LogLevel::Warn, "MASTER_ADDR ", world.master_addr, " is ", endpoints.front().host(),
        " on this host (see /etc/hosts), where no other host can reach it", listens);
    return "";
  }
  if (std::ranges::any_of(endpoints, [&](const Endpoint& one) { return one.family() != endpoints[0].family(); })) {
    log(LogLevel::Info, "MASTER_ADDR " + world.master_addr + " has addresses of IPv4 and of IPv6" + listens);
    return "";
  }
  return world.master_addr;
}

Addresses exchange_addresses(const MeetingPlace& place, const World& world, const std::string& group,
                             const std::vector<std::string>& endpoints, const std::string& ucx,
                             const Settings& settings, std::chrono::milliseconds timeout, Deadline deadline) {
  Store& store = *place.client;
  std::vector<std::string> keys;
  for (int rank = 0; rank < world.world_size; ++rank) keys.push_back(address_key(group, rank));
  store.set(keys[static_cast<std::size_t>(world.rank)],
            to_line({endpoints, host_name(), std::to_string(::getpid()), host_identity(), ucx, settings}), deadline);
  const std::int64_t arrived = store.add(group + "/arrived", 1, deadline);
  Addresses addresses{.peers = {}, .hosts = {}, .formation = (arrived - 1) / world.world_size};
  const std::string table_key = group + "/addresses/" + std::to_string(addresses.formation);
  if (arrived % world.world_size == 0) {
    std::string table;
    for (const std::string& line : store.multi_get(keys, deadline)) table += line + "\n";
    if (place.withdraw) place.withdraw();
    store.set(table_key, table, deadline);
  }
  std::vector<RankAddress> ranks;
  std::istringstream table(await_table(place, world, group, table_key, keys, timeout, deadline));
  for (std::string line; ranks.size() < keys.size() && std::getline(table, line);) ranks.push_back(from_line(line));
  if (ranks.size() < keys.size())
    throw Error(ErrorCode::Protocol, "the table of addresses of group '", group, "' has ", ranks.size(), " lines for ",
                keys.size(), " ranks");
  refuse_different_settings(world, group, ranks);
  keep_reachable(world.rank, ranks);
  for (const RankAddress& rank : ranks) {
    addresses.peers.push_back({.endpoint = rank.endpoints.front(),
                               .host = rank.host,
                               .pid = rank.pid,
                               .others = {rank.endpoints.begin() + 1, rank.endpoints.end()},
                               .bulk = rank.ucx});
    addresses.hosts.push_back(rank.identity);
  }
  return addresses;
}

void await_key(Store& store, const World& world, const std::string& group, const std::string& key, Deadline deadline) {
  const std::vector<std::string> keys{key};
  for (;;) {
    try {
      return store.wait(keys, deadline.earlier_of(Deadline::after(kLookAfterTheLost)));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Timeout || deadline.expired()) throw;
    }
    refuse_lost(store, world, group, deadline);
  }
}

}  // namespace tutti::comm
