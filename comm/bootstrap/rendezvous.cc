#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/lone_transport.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/transport/shm/shm_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

[[noreturn]] void refuse_without_secret(const World& world, const std::string& group) {
  refuse(rank_text(world), ": group '", group,
         "' was to be encrypted, but there is no job secret to make a key of: set TUTTI_JOB_SECRET to the same random "
         "text on all ranks, or start them by `tutti run`, which makes one");
}

GroupMembers everybody(const World& world, const std::string& group) {
  GroupMembers members{.name = group, .rank = world.rank, .world_ranks = {}};
  members.world_ranks.resize(static_cast<std::size_t>(world.world_size));
  std::iota(members.world_ranks.begin(), members.world_ranks.end(), 0);
  return members;
}

bool outnumber_cpus(int ranks) {
  if (std::getenv("TUTTI_OWN_CPUS") != nullptr) return false;  // the launcher has given each rank CPUs of its own
  const int processors = allowed_processors();
  return processors > 0 && ranks > processors;
}

/// Before the ranks meet, so that each says so.
void refuse_missing_ucx(const World& world, const RendezvousOptions& options) {
  if (options.transport != TransportChoice::Ucx) return;
  const std::string why =
      options.encrypt ? "UCX does not encrypt: use --transport auto, or no --encrypt" : ucx_refusal();
  if (!why.empty()) refuse(rank_text(world), ": transport ucx: ", why);
}

/// The interfaces of these addresses, each once and with the address that UCX takes for its own: its first of IPv4.
std::vector<InterfaceAddress> rails_at(const std::vector<std::string>& addresses) {
  std::vector<InterfaceAddress> rails;
  const std::vector<InterfaceAddress> all = interface_addresses();
  for (const std::string& address : addresses) {
    const auto one = std::ranges::find(all, address, &InterfaceAddress::address);
    if (one == all.end() || std::ranges::count(rails, one->interface, &InterfaceAddress::interface) > 0) continue;
    const auto first = std::ranges::find_if(all, [&](const InterfaceAddress& other) {
      return other.interface == one->interface && other.address.find(':') == std::string::npos;
    });
    rails.push_back(first != all.end() ? *first : *one);
  }
  return rails;
}

/// UCX for what goes between hosts, where it was asked for or has a card; else null. The log says why.
std::shared_ptr<BulkEngine> ucx_for(const World& world, const RendezvousOptions& options,
                                    const std::vector<std::string>& addresses) {
  const bool is_asked_for = options.transport == TransportChoice::Ucx;
  const bool has_choice = options.transport == TransportChoice::Auto && !options.encrypt;
  if (!is_asked_for && !(has_choice && world.local_world_size < world.world_size)) return nullptr;
  std::vector<InterfaceAddress> rails = rails_at(addresses);
  const bool narrowed = !options.interface.empty() || std::getenv("TUTTI_IFACE") != nullptr;
  const auto parts = [&](std::string InterfaceAddress::*part) {
    std::vector<std::string> all;
    for (const InterfaceAddress& rail : rails) all.push_back(rail.*part);
    return all;
  };
  const std::vector<std::string> cards =
      cards_that_are_up(narrowed ? parts(&InterfaceAddress::interface) : std::vector<std::string>{});
  if (!is_asked_for && cards.empty()) return nullptr;
  // Several interfaces only if they were named: others may not reach the peers. Several cards UCX uses by one address.
  if (!narrowed || !cards.empty()) rails.resize(std::min<std::size_t>(rails.size(), 1));
  const std::string devices = listed(cards.empty() ? parts(&InterfaceAddress::interface) : cards, ",");
  try {
    auto ucx = open_ucx(devices, rails.empty() ? std::vector{addresses.front()} : parts(&InterfaceAddress::address));
    log(LogLevel::Info, rank_text(world), " has ", ucx_version(), " for long payloads between hosts, on ", devices,
        cards.empty() ? " (asked for, no card is up)" : " (its port is up)");
    return ucx;
  } catch (const Error& error) {
    if (is_asked_for) throw Error(error.code(), rank_text(world), ": transport ucx: ", error.what());
    log(LogLevel::Warn, rank_text(world), " has the card ", devices, ", but uses TCP: ", error.what());
    return nullptr;
  }
}

/// Makes the transports of this process, for the group of all ranks and for those split from it. ProcessGroup makes one
/// group at a time.
class NetworkFactory final : public TransportFactory {
 public:
  /// `listener`, `store` and `addresses` are empty in a world of one.
  NetworkFactory(World world, TransportChoice choice, std::shared_ptr<Store> store,
                 std::shared_ptr<TcpListener> listener, Addresses addresses, std::shared_ptr<BulkEngine> bulk)
      : world_(std::move(world)),
        choice_(choice),
        store_(std::move(store)),
        listener_(std::move(listener)),
        addresses_(std::move(addresses)),
        bulk_(std::move(bulk)) {}

  /// Throws InvalidArgument where shared memory was asked for and this rank shares none.
  std::unique_ptr<Transport> make(const GroupMembers& members, Deadline deadline) override {
    if (members.world_ranks.size() == 1) return std::make_unique<LoneTransport>();
    auto tcp = make_tcp(members);
    if (choice_ == TransportChoice::Tcp) return tcp;
    const std::string formation = members.name + "/" + std::to_string(addresses_.formation);
    auto neighbours = members.is_whole_world(world_.world_size) ? meet_neighbours(members, formation, deadline)
                                                                : known_neighbours(members, formation, deadline);
    if (!neighbours) return tcp;
    return std::make_unique<ShmTransport>(std::move(tcp), std::move(neighbours), identity_hash(members.name));
  }

  std::string key_of(const std::string& group) const override {
    return addresses_.formation == 0 ? group : group + "/" + std::to_string(addresses_.formation);
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
      refuse(rank_text(world_), ": group '", members.name,
             "' was to use shared memory, but this rank shares none with another: use \"auto\" or \"tcp\"");
    return neighbours;
  }

  /// Of a sub-group: waits for no rank.
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
                                                           .oversubscribed = outnumber_cpus(world_.local_world_size),
                                                           .bulk = bulk_},
                                       listener_);
    transport->set_peers(std::move(peers));
    return transport;
  }

  const World world_;
  const TransportChoice choice_;
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<TcpListener> listener_;
  const Addresses addresses_;  // by rank of the world
  const std::shared_ptr<BulkEngine> bulk_;
  // By rank of the world: with this rank.
  std::vector<bool> shares_memory_ = std::vector<bool>(static_cast<std::size_t>(world_.world_size));
};

}  // namespace

TransportChoice transport_choice(const std::string& name) {
  const char* environment = std::getenv("TUTTI_TRANSPORT");
  const std::string chosen = name.empty() && environment ? environment : name;
  if (chosen.empty() || chosen == "auto") return TransportChoice::Auto;
  if (chosen == "tcp") return TransportChoice::Tcp;
  if (chosen == "shm") return TransportChoice::Shm;
  if (chosen == "ucx") return TransportChoice::Ucx;
  refuse("transport \"", chosen, '"', name.empty() ? " (TUTTI_TRANSPORT)" : "",
         " is unknown; known are auto, tcp, shm, ucx");
}

bool encryption_choice(bool option) {
  const char* environment = std::getenv("TUTTI_ENCRYPT");
  const std::string chosen = environment ? environment : "";
  if (!chosen.empty() && chosen != "0" && chosen != "1")
    refuse("TUTTI_ENCRYPT=\"", printable(chosen, 64), "\" is neither 1 (encrypt) nor 0");
  return option || chosen == "1";
}

Meeting rendezvous(const World& world, const std::string& group, const RendezvousOptions& options) {
  refuse_missing_ucx(world, options);
  const Deadline deadline = Deadline::after(options.timeout);
  const GroupMembers members = everybody(world, group);
  if (world.world_size == 1) {
    const auto factory =
        std::make_shared<NetworkFactory>(world, options.transport, nullptr, nullptr, Addresses{}, nullptr);
    return {std::make_shared<HashStore>(), factory->make(members, deadline), factory};
  }
  if (options.encrypt && world.job_secret.empty()) refuse_without_secret(world, group);
  make_room_for_group(group, members.world_ranks.size());
  const auto place = meet(world, deadline);
  std::shared_ptr<Store> store(place, place->client.get());
  const std::vector<std::string> addresses = addresses_to_publish(
      world,
      {.bind_address = options.bind_address, .interface = options.interface, .towards_store = place->local_address});
  const auto listener = std::make_shared<TcpListener>(TcpListenerOptions{
      .addresses = addresses, .job_id = world.job_id, .job_secret = world.job_secret, .encrypt = options.encrypt});
  auto ucx = ucx_for(world, options, addresses);
  Addresses all = exchange_addresses(*place, world, group, listener->endpoints(), ucx ? ucx->address() : kNoUcx,
                                     options.settings, options.timeout, deadline);
  if (std::ranges::count(all.peers, kNoUcx, &PeerAddress::bulk) > 0) ucx = nullptr;
  const auto factory =
      std::make_shared<NetworkFactory>(world, options.transport, store, listener, std::move(all), std::move(ucx));
  auto transport = factory->make(members, deadline);
  log(LogLevel::Info, rank_text(world), " (", world.detected_from, ") joined group '", group, "', listening on ",
      listener->endpoint(), ", transport ", transport->name());
  return {std::move(store), std::move(transport), factory};
}

}  // namespace tutti::comm
