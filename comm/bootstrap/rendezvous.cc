#include <sched.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/transport/inproc/inproc_transport.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/transport/shm/shm_transport.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <unistd.h>

#include <cstdlib>
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

struct Addresses {
  std::vector<PeerAddress> peers;
  std::vector<std::string> hosts;  // host_identity() of each rank
};

Addresses exchange_addresses(Store& store, const World& world, const std::string& group, const std::string& endpoint,
                             std::chrono::milliseconds timeout, Deadline deadline) {
  store.set(address_key(group, world.rank),
            endpoint + " " + host_name() + " " + std::to_string(::getpid()) + " " + host_identity(), deadline);
  std::vector<std::string> keys;
  for (int rank = 0; rank < world.world_size; ++rank) keys.push_back(address_key(group, rank));
  await_ranks(store, world, group, keys, timeout, deadline);
  Addresses addresses;
  for (const std::string& text : store.multi_get(keys, deadline)) {
    std::istringstream in(text);
    PeerAddress& peer = addresses.peers.emplace_back();
    in >> peer.endpoint >> peer.host >> peer.pid >> addresses.hosts.emplace_back();
  }
  return addresses;
}

/// Shared memory among the ranks of this host, if that is wanted and possible; else `tcp` itself.
std::unique_ptr<Transport> choose_transport(std::unique_ptr<TcpTransport> tcp, Store& store, const World& world,
                                            const std::string& group, const RendezvousOptions& options,
                                            const std::vector<std::string>& hosts, Deadline deadline) {
  if (options.transport == TransportChoice::Tcp) return tcp;
  const auto await = [&](const std::string& key) {
    await_ranks(store, world, group, {key}, options.timeout, deadline);
  };
  auto neighbours = join_neighbours(store, group, world.rank, hosts, deadline, await);
  if (neighbours) return std::make_unique<ShmTransport>(std::move(tcp), std::move(neighbours), identity_hash(group));
  if (options.transport == TransportChoice::Shm)
    throw Error(ErrorCode::InvalidArgument,
                "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + ": group '" + group +
                    "' was to use shared memory, but this rank shares none with another: use \"auto\" or \"tcp\"");
  return tcp;
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

Meeting rendezvous(const World& world, const std::string& group, const RendezvousOptions& options) {
  if (world.world_size == 1) return {std::make_shared<HashStore>(), std::move(make_inproc_transports(1).front())};
  const Deadline deadline = Deadline::after(options.timeout);
  const auto meeting_place = meet_at_store(world, deadline);
  std::shared_ptr<Store> store(meeting_place, meeting_place->client.get());
  auto transport = std::make_unique<TcpTransport>(TcpTransportOptions{
      .rank = world.rank,
      .world_size = world.world_size,
      .group = group,
      .job_id = world.job_id,
      .job_secret = world.job_secret,
      .bind_address = options.bind_address.empty() ? meeting_place->client->local_address() : options.bind_address,
      .oversubscribed = outnumber_cpus(world.local_world_size)});
  Addresses addresses = exchange_addresses(*store, world, group, transport->endpoint(), options.timeout, deadline);
  transport->set_peers(std::move(addresses.peers));
  log(LogLevel::Info, "rank " + std::to_string(world.rank) + "/" + std::to_string(world.world_size) + " (" +
                          world.detected_from + ") joined group '" + group + "', listening on " +
                          transport->endpoint());
  auto chosen = choose_transport(std::move(transport), *store, world, group, options, addresses.hosts, deadline);
  return {std::move(store), std::move(chosen)};
}

}  // namespace tutti::comm
