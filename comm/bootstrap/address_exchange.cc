#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/text_stream.h>
#include <tutti/comm/bootstrap/address_exchange.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/transport/shm/join.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <sstream>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kLookAfterTheLost(250);
constexpr std::size_t kMissingRanksShown = 16;

std::string address_key(const std::string& group, int rank) { return group + "/address/" + std::to_string(rank); }

/// All ranks find the same differences, before any of them tries a connection.
void refuse_different_settings(const World& world, const std::string& group, const std::vector<RankAddress>& ranks) {
  std::vector<Settings> settings;
  std::vector<std::string> names;
  for (const RankAddress& rank : ranks) {
    settings.push_back(rank.settings);
    names.push_back(rank.host + ", pid " + rank.pid);
  }
  const std::string different = difference(settings, names);
  if (different.empty()) return;
  throw Error(ErrorCode::Mismatch,
              "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + ": group '" + group +
                  "' cannot form: its ranks were started differently: " + different + ": start all ranks alike");
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

[[noreturn]] void name_the_missing(const MeetingPlace& place, const World& world, const std::string& group,
                                   std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  std::vector<int> missing;
  collect_missing(*place.client, keys, 0, world.world_size, missing);
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kMissingRanksShown); ++i)
    names += (names.empty() ? "" : ", ") + std::to_string(missing[i]);
  if (missing.size() > kMissingRanksShown) names += ", ...";
  TextStream text;
  text << "rank " << world.rank << "/" << world.world_size << ": group '" << group << "' did not form within "
       << std::chrono::duration<double>(timeout).count() << " s: no sign of rank(s) " << names << " at " << place.where
       << "; were they started, with this "
       << (world.store_file.empty() ? "address and job secret?" : "file and job id?");
  throw Error(ErrorCode::Timeout, text.str());
}

/// The text of a rank that the store knows to be gone; nothing if there is none, or it has just come back.
std::optional<std::string> find_lost(Store& store, Deadline deadline) {
  const std::vector<std::string> any{kLostRanksKey};
  if (!store.check(any, deadline)) return std::nullopt;
  const Deadline soon = deadline.earlier_of(Deadline::after(kLookAfterTheLost));
  try {
    const std::string ranks = store.get(kLostRanksKey, soon);
    const std::string first = ranks.substr(0, ranks.find(' '));
    return "lost rank " + first + ": " + store.get(kLostKeyPrefix + first, soon);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) throw;
    return std::nullopt;
  }
}

/// Throws PeerLost if the store knows a rank to be gone.
void refuse_lost(Store& store, const World& world, const std::string& group, Deadline deadline) {
  const auto lost = find_lost(store, deadline);
  if (!lost) return;
  throw Error(ErrorCode::PeerLost, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) +
                                       ": group '" + group + "' cannot form: " + *lost);
}

/// Waits for the table of all addresses, but not for a rank whose process the store knows to be gone.
std::string await_table(const MeetingPlace& place, const World& world, const std::string& group,
                        const std::string& table_key, std::span<const std::string> keys,
                        std::chrono::milliseconds timeout, Deadline deadline) {
  Store& store = *place.client;
  for (;;) {
    try {
      return store.get(table_key, deadline.earlier_of(Deadline::after(kLookAfterTheLost)));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Timeout) throw;
    }
    if (deadline.expired()) name_the_missing(place, world, group, keys, timeout);
    refuse_lost(store, world, group, deadline);
  }
}

}  // namespace

Addresses exchange_addresses(const MeetingPlace& place, const World& world, const std::string& group,
                             const std::vector<std::string>& endpoints, const Settings& settings,
                             std::chrono::milliseconds timeout, Deadline deadline) {
  Store& store = *place.client;
  std::vector<std::string> keys;
  for (int rank = 0; rank < world.world_size; ++rank) keys.push_back(address_key(group, rank));
  store.set(keys[static_cast<std::size_t>(world.rank)],
            to_line({endpoints, host_name(), std::to_string(::getpid()), host_identity(), settings}), deadline);
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
    throw Error(ErrorCode::Protocol, "the table of addresses of group '" + group + "' has " +
                                         std::to_string(ranks.size()) + " lines for " + std::to_string(keys.size()) +
                                         " ranks");
  refuse_different_settings(world, group, ranks);
  keep_reachable(world.rank, ranks);
  for (const RankAddress& rank : ranks) {
    addresses.peers.push_back({.endpoint = rank.endpoints.front(),
                               .host = rank.host,
                               .pid = rank.pid,
                               .others = {rank.endpoints.begin() + 1, rank.endpoints.end()}});
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
