#include <sched.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/transport/inproc/inproc_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <unistd.h>

#include <numeric>
#include <sstream>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kLookAfterTheLost(250);

/// The store client, with the server behind it where this rank hosts it. Members die in reverse: the client first.
struct StoreAndServer {
  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<TcpStore> client;
};

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown-host";
}

bool outnumber_cpus(int ranks) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  return ranks > CPU_COUNT(&allowed);
}

std::string address_key(const std::string& group, int rank) { return group + "/address/" + std::to_string(rank); }

std::shared_ptr<StoreAndServer> meet_at_store(const World& world, Deadline deadline) {
  auto both = std::make_shared<StoreAndServer>();
  if (world.rank == 0 && !world.launcher_owns_store)
    both->server = std::make_unique<TcpStoreServer>(TcpStoreServerOptions{.bind_address = world.master_addr,
                                                                          .port = world.master_port,
                                                                          .job_id = world.job_id,
                                                                          .job_secret = world.job_secret,
                                                                          .world_size = world.world_size});
  both->client = std::make_unique<TcpStore>(TcpStoreOptions{.host = world.master_addr,
                                                            .port = world.master_port,
                                                            .job_id = world.job_id,
                                                            .job_secret = world.job_secret,
                                                            .rank = world.rank,
                                                            .world_size = world.world_size},
                                            deadline);
  return both;
}

[[noreturn]] void name_the_missing(Store& store, const World& world, const std::string& group,
                                   std::chrono::milliseconds timeout) {
  std::string missing;
  for (int rank = 0; rank < world.world_size; ++rank) {
    const std::vector<std::string> key{address_key(group, rank)};
    if (!store.check(key, Deadline::after(std::chrono::seconds(2))))
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  std::ostringstream text;
  text << "rank " << world.rank << "/" << world.world_size << ": group '" << group << "' did not form within "
       << std::chrono::duration<double>(timeout).count() << " s: no sign of rank(s) " << missing << " at the store "
       << world.master_addr << ":" << world.master_port << "; were they started, with this address and job secret?";
  throw Error(ErrorCode::Timeout, text.str());
}

/// Waits for the keys of all ranks, but not for a rank whose process the store knows to be gone.
void await_ranks(Store& store, const World& world, const std::string& group, const std::vector<std::string>& keys,
                 std::chrono::milliseconds timeout, Deadline deadline) {
  for (;;) {
    try {
      return store.wait(keys, deadline.earlier_of(Deadline::after(kLookAfterTheLost)));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Timeout) throw;
    }
    if (deadline.expired()) name_the_missing(store, world, group, timeout);
    for (int rank = 0; rank < world.world_size; ++rank) {
      const std::vector<std::string> lost{kLostKeyPrefix + std::to_string(rank)};
      if (!store.check(lost, deadline)) continue;
      throw Error(ErrorCode::PeerLost, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) +
                                           ": group '" + group + "' cannot form: lost rank " + std::to_string(rank) +
                                           ": " + store.get(lost[0], deadline));
    }
  }
}

std::vector<PeerAddress> exchange_addresses(Store& store, const World& world, const std::string& group,
                                            const std::string& endpoint, std::chrono::milliseconds timeout,
                                            Deadline deadline) {
  store.set(address_key(group, world.rank), endpoint + " " + host_name() + " " + std::to_string(::getpid()), deadline);
  std::vector<std::string> keys;
  for (int rank = 0; rank < world.world_size; ++rank) keys.push_back(address_key(group, rank));
  await_ranks(store, world, group, keys, timeout, deadline);
  std::vector<PeerAddress> peers;
  for (const std::string& text : store.multi_get(keys, deadline)) {
    std::istringstream in(text);
    in >> peers.emplace_back().endpoint >> peers.back().host >> peers.back().pid;
  }
  return peers;
}

/// What a process needs to make transports, for the group of all ranks and for those split from it.
class NetworkFactory final : public TransportFactory {
 public:
  /// `addresses` and `listener` are empty in a world of one.
  NetworkFactory(World world, std::shared_ptr<TcpListener> listener, std::vector<PeerAddress> addresses)
      : world_(std::move(world)), listener_(std::move(listener)), addresses_(std::move(addresses)) {}

  std::unique_ptr<Transport> make(const GroupMembers& members, Deadline) override {
    const std::size_t p = members.world_ranks.size();
    if (p == 1) return std::move(make_inproc_transports(1).front());
    std::vector<PeerAddress> peers;
    for (const int rank : members.world_ranks) {
      peers.push_back(addresses_.at(static_cast<std::size_t>(rank)));
      if (!members.is_whole_world(world_.world_size)) peers.back().world_rank = rank;
    }
    auto transport =
        std::make_unique<TcpTransport>(TcpTransportOptions{.rank = members.rank,
                                                           .world_size = static_cast<int>(p),
                                                           .group = members.name,
                                                           .job_id = world_.job_id,
                                                           .job_secret = world_.job_secret,
                                                           .oversubscribed = outnumber_cpus(world_.local_world_size)},
                                       listener_);
    transport->set_peers(std::move(peers));
    return transport;
  }

 private:
  const World world_;
  const std::shared_ptr<TcpListener> listener_;
  const std::vector<PeerAddress> addresses_;  // by rank of the world
};

GroupMembers everybody(const World& world, const std::string& group) {
  GroupMembers members{.name = group, .rank = world.rank, .world_ranks = {}};
  members.world_ranks.resize(static_cast<std::size_t>(world.world_size));
  std::iota(members.world_ranks.begin(), members.world_ranks.end(), 0);
  return members;
}

}  // namespace

Meeting rendezvous(const World& world, const std::string& group, const std::string& bind_address,
                   std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  const GroupMembers members = everybody(world, group);
  if (world.world_size == 1) {
    const auto factory = std::make_shared<NetworkFactory>(world, nullptr, std::vector<PeerAddress>());
    return {std::make_shared<HashStore>(), factory->make(members, deadline), factory};
  }
  const auto meeting_place = meet_at_store(world, deadline);
  std::shared_ptr<Store> store(meeting_place, meeting_place->client.get());
  const auto listener = std::make_shared<TcpListener>(
      TcpListenerOptions{.address = bind_address.empty() ? meeting_place->client->local_address() : bind_address,
                         .job_id = world.job_id,
                         .job_secret = world.job_secret});
  const auto factory = std::make_shared<NetworkFactory>(
      world, listener, exchange_addresses(*store, world, group, listener->endpoint(), timeout, deadline));
  auto transport = factory->make(members, deadline);
  log(LogLevel::Info, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + " (" +
                          world.detected_from + ") joined group '" + group + "', listening on " + listener->endpoint());
  return {std::move(store), std::move(transport), factory};
}

}  // namespace tutti::comm
