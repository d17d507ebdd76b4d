#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/bootstrap/printable.h>
#include <tutti/comm/bootstrap/published_server.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/transport/inproc/inproc_transport.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/transport/shm/shm_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kLookAfterTheLost(250);
constexpr std::chrono::milliseconds kLastToGo(5000);
constexpr std::size_t kMissingRanksShown = 16;

/// A store, with the server behind it where this rank hosts it. Who hosts it is the last to go, up to a limit: others
/// may still be asking it whether all is well.
struct MeetingPlace {
  MeetingPlace() = default;
  ~MeetingPlace() {
    client.reset();
    if (server && withdraw) withdraw();
    if (server && !server->wait_until_unused(Deadline::after(kLastToGo)))
      log(LogLevel::Warn, where + " ends, though some ranks are still connected to it");
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<Store> client;
  std::function<void()> withdraw;  // if set: to be called as soon as all ranks are there (published_server.h)
  std::string where;               // for texts
  std::string local_address;       // this end of the connection to the store; "" in a file
};

bool outnumber_cpus(int ranks) {
  if (std::getenv("TUTTI_OWN_CPUS") != nullptr) return false;  // the launcher has given each rank CPUs of its own
  const int processors = allowed_processors();
  return processors > 0 && ranks > processors;
}

std::string address_key(const std::string& group, int rank) { return group + "/address/" + std::to_string(rank); }

std::shared_ptr<MeetingPlace> meet_at_server(const World& world, Deadline deadline) {
  auto place = std::make_shared<MeetingPlace>();
  if (world.rank == 0 && !world.launcher_owns_store)
    place->server = std::make_unique<TcpStoreServer>(TcpStoreServerOptions{.bind_address = store_bind_address(world),
                                                                           .port = world.master_port,
                                                                           .job_id = world.job_id,
                                                                           .job_secret = world.job_secret,
                                                                           .world_size = world.world_size});
  auto client = std::make_unique<TcpStore>(TcpStoreOptions{.host = world.master_addr,
                                                           .port = world.master_port,
                                                           .job_id = world.job_id,
                                                           .job_secret = world.job_secret,
                                                           .rank = world.rank,
                                                           .world_size = world.world_size},
                                           deadline);
  place->local_address = client->local_address();
  place->client = std::move(client);
  place->where = "the store " + world.master_addr + ":" + std::to_string(world.master_port);
  return place;
}

std::shared_ptr<MeetingPlace> meet_where_published(const World& world, Deadline deadline) {
  PublishedMeeting meeting = meet_at_published_server(world, deadline);
  auto place = std::make_shared<MeetingPlace>();
  place->server = std::move(meeting.server);
  place->withdraw = std::move(meeting.withdraw);
  place->where = std::move(meeting.where);
  place->local_address = meeting.client->local_address();
  place->client = std::move(meeting.client);
  log(LogLevel::Info, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + " (" +
                          world.detected_from + ") has reached " + place->where);
  return place;
}

std::shared_ptr<MeetingPlace> meet_in_file(const World& world, Deadline deadline) {
  auto place = std::make_shared<MeetingPlace>();
  auto client = std::make_unique<FileStore>(
      FileStoreOptions{
          .path = world.store_file, .job_id = world.job_id, .rank = world.rank, .world_size = world.world_size},
      deadline);
  place->where = "the store file " + client->path();
  place->client = std::move(client);
  return place;
}

std::shared_ptr<MeetingPlace> meet(const World& world, Deadline deadline) {
  if (!world.store_file.empty()) return meet_in_file(world, deadline);
  if (!world.meeting_file.empty() || world.pmi_descriptor >= 0) return meet_where_published(world, deadline);
  return meet_at_server(world, deadline);
}

[[noreturn]] void refuse_without_secret(const World& world, const std::string& group) {
  throw Error(ErrorCode::InvalidArgument,
              "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + ": group '" + group +
                  "' was to be encrypted, but there is no job secret to make a key of: set TUTTI_JOB_SECRET to the "
                  "same random text on all ranks, or start them by `tutti run`, which makes one");
}

/// Where some ranks encrypt and others do not, all say so, and no connection is tried.
void refuse_mixed_encryption(const World& world, const std::string& group, const std::vector<RankAddress>& ranks) {
  const bool here = ranks[static_cast<std::size_t>(world.rank)].encrypts;
  const auto other = std::ranges::find(ranks, !here, &RankAddress::encrypts);
  if (other == ranks.end()) return;
  const auto rank = static_cast<std::size_t>(other - ranks.begin());
  throw Error(ErrorCode::Unauthorized,
              "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + ": group '" + group +
                  "' cannot form: rank " + std::to_string(rank) + " (" + other->host + ", pid " + other->pid +
                  ") was started " + (here ? "without" : "with") + " encryption, this rank " +
                  (here ? "with" : "without") + " it: start all ranks with --encrypt (TUTTI_ENCRYPT=1), or none");
}

/// Ranks of [first, last) whose address is not in the store; halves that are complete are not looked into.
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
  std::ostringstream text;
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
    if (const auto lost = find_lost(store, deadline))
      throw Error(ErrorCode::PeerLost, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) +
                                           ": group '" + group + "' cannot form: " + *lost);
  }
}

/// Waits for a key that a rank of this host sets, but not for one whose process the store knows to be gone.
void await_key(Store& store, const World& world, const std::string& group, const std::string& key, Deadline deadline) {
  const std::vector<std::string> keys{key};
  for (;;) {
    try {
      return store.wait(keys, deadline.earlier_of(Deadline::after(kLookAfterTheLost)));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Timeout || deadline.expired()) throw;
    }
    if (const auto lost = find_lost(store, deadline))
      throw Error(ErrorCode::PeerLost, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) +
                                           ": group '" + group + "' cannot form: " + *lost);
  }
}

struct Addresses {
  std::vector<PeerAddress> peers;
  std::vector<std::string> hosts;  // host_identity() of each rank
  std::int64_t formation = 0;      // how many groups of this name there were before
};

/// Every rank publishes its address and counts itself; the last one joins all addresses to one table, which the others
/// wait for: a few round trips and one key each, however many ranks there are. When the ranks form a group of this name
/// once more, the count tells that it is another one, with a table of its own.
Addresses exchange_addresses(const MeetingPlace& place, const World& world, const std::string& group,
                             const std::vector<std::string>& endpoints, bool encrypt, std::chrono::milliseconds timeout,
                             Deadline deadline) {
  Store& store = *place.client;
  std::vector<std::string> keys;
  for (int rank = 0; rank < world.world_size; ++rank) keys.push_back(address_key(group, rank));
  store.set(keys[static_cast<std::size_t>(world.rank)],
            to_line({endpoints, host_name(), std::to_string(::getpid()), host_identity(), encrypt}), deadline);
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
  refuse_mixed_encryption(world, group, ranks);
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

/// What a process needs to make transports, for the group of all ranks and for those split from it.
class NetworkFactory final : public TransportFactory {
 public:
  /// `listener`, `store` and `addresses` are empty in a world of one.
  NetworkFactory(World world, TransportChoice choice, std::shared_ptr<Store> store,
                 std::shared_ptr<TcpListener> listener, Addresses addresses)
      : world_(std::move(world)),
        choice_(choice),
        store_(std::move(store)),
        listener_(std::move(listener)),
        addresses_(std::move(addresses)) {}

  std::unique_ptr<Transport> make(const GroupMembers& members, Deadline deadline) override {
    if (members.world_ranks.size() == 1) return std::move(make_inproc_transports(1).front());
    auto tcp = make_tcp(members);
    if (choice_ == TransportChoice::Tcp) return tcp;
    const std::string formation = members.name + "/" + std::to_string(addresses_.formation);
    auto neighbours = members.is_whole_world(world_.world_size) ? meet_neighbours(members, formation, deadline)
                                                                : known_neighbours(members, formation, deadline);
    if (!neighbours) return tcp;
    return std::make_unique<ShmTransport>(std::move(tcp), std::move(neighbours), identity_hash(members.name));
  }

 private:
  /// Of the whole world: the ranks of this host wait for each other.
  std::unique_ptr<Neighbours> meet_neighbours(const GroupMembers& members, const std::string& formation,
                                              Deadline deadline) {
    const auto await = [&](const std::string& key) { await_key(*store_, world_, members.name, key, deadline); };
    auto neighbours = join_neighbours(*store_, formation, members.rank, addresses_.hosts, deadline, await);
    for (int index = 0; neighbours && index < neighbours->size(); ++index)
      shares_memory_[static_cast<std::size_t>(neighbours->rank_of(index))] = true;
    if (!neighbours && choice_ == TransportChoice::Shm)
      throw Error(ErrorCode::InvalidArgument,
                  "rank " + std::to_string(world_.rank) + "/" + std::to_string(world_.world_size) + ": group '" +
                      members.name +
                      "' was to use shared memory, but this rank shares none with another: use \"auto\" or \"tcp\"");
    return neighbours;
  }

  /// Of a sub-group, which waits for nobody.
  std::unique_ptr<Neighbours> known_neighbours(const GroupMembers& members, const std::string& formation,
                                               Deadline deadline) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < members.world_ranks.size(); ++rank)
      if (shares_memory_[static_cast<std::size_t>(members.world_ranks[rank])]) ranks.push_back(static_cast<int>(rank));
    return join_known_neighbours(*store_, formation, members.rank, ranks, deadline);
  }

  std::unique_ptr<TcpTransport> make_tcp(const GroupMembers& members) {
    std::vector<PeerAddress> peers;
    for (const int rank : members.world_ranks) {
      peers.push_back(addresses_.peers.at(static_cast<std::size_t>(rank)));
      if (!members.is_whole_world(world_.world_size)) peers.back().world_rank = rank;
    }
    auto transport =
        std::make_unique<TcpTransport>(TcpTransportOptions{.rank = members.rank,
                                                           .world_size = static_cast<int>(members.world_ranks.size()),
                                                           .group = members.name,
                                                           .job_id = world_.job_id,
                                                           .job_secret = world_.job_secret,
                                                           .oversubscribed = outnumber_cpus(world_.local_world_size)},
                                       listener_);
    transport->set_peers(std::move(peers));
    return transport;
  }

  const World world_;
  const TransportChoice choice_;
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<TcpListener> listener_;
  const Addresses addresses_;  // by rank of the world, as the next
  std::vector<bool> shares_memory_ = std::vector<bool>(static_cast<std::size_t>(world_.world_size));  // with this rank
};

GroupMembers everybody(const World& world, const std::string& group) {
  GroupMembers members{.name = group, .rank = world.rank, .world_ranks = {}};
  members.world_ranks.resize(static_cast<std::size_t>(world.world_size));
  std::iota(members.world_ranks.begin(), members.world_ranks.end(), 0);
  return members;
}

}  // namespace

TransportChoice transport_choice(const std::string& name) {
  const char* environment = std::getenv("TUTTI_TRANSPORT");
  const std::string chosen = name.empty() && environment ? environment : name;
  if (chosen.empty() || chosen == "auto") return TransportChoice::Auto;
  if (chosen == "tcp") return TransportChoice::Tcp;
  if (chosen == "shm") return TransportChoice::Shm;
  throw Error(ErrorCode::InvalidArgument, "transport \"" + chosen + "\"" + (name.empty() ? " (TUTTI_TRANSPORT)" : "") +
                                              " is unknown; known are auto, tcp, shm");
}

bool encryption_choice(bool option) {
  const char* environment = std::getenv("TUTTI_ENCRYPT");
  const std::string chosen = environment ? environment : "";
  if (!chosen.empty() && chosen != "0" && chosen != "1")
    throw Error(ErrorCode::InvalidArgument,
                "TUTTI_ENCRYPT=\"" + printable(chosen, 64) + "\" is neither 1 (encrypt) nor 0");
  return option || chosen == "1";
}

Meeting rendezvous(const World& world, const std::string& group, const RendezvousOptions& options) {
  const Deadline deadline = Deadline::after(options.timeout);
  const GroupMembers members = everybody(world, group);
  if (world.world_size == 1) {
    const auto factory = std::make_shared<NetworkFactory>(world, options.transport, nullptr, nullptr, Addresses{});
    return {std::make_shared<HashStore>(), factory->make(members, deadline), factory};
  }
  if (options.encrypt && world.job_secret.empty()) refuse_without_secret(world, group);
  // A connection with every rank on each lane, if it comes to that; a limit below is met where it hurts, and named
  // there.
  try_raise_descriptor_limit(3 * static_cast<std::size_t>(world.world_size));
  const auto place = meet(world, deadline);
  std::shared_ptr<Store> store(place, place->client.get());
  const auto listener = std::make_shared<TcpListener>(
      TcpListenerOptions{.addresses = addresses_to_publish(world, {.bind_address = options.bind_address,
                                                                   .interface = options.interface,
                                                                   .towards_store = place->local_address}),
                         .job_id = world.job_id,
                         .job_secret = world.job_secret,
                         .encrypt = options.encrypt});
  const auto factory = std::make_shared<NetworkFactory>(
      world, options.transport, store, listener,
      exchange_addresses(*place, world, group, listener->endpoints(), options.encrypt, options.timeout, deadline));
  auto transport = factory->make(members, deadline);
  log(LogLevel::Info, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + " (" +
                          world.detected_from + ") joined group '" + group + "', listening on " + listener->endpoint() +
                          ", transport " + std::string(transport->name()));
  return {std::move(store), std::move(transport), factory};
}

}  // namespace tutti::comm
