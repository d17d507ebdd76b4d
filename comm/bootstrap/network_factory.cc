#include <tutti/comm/base/error.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/bootstrap/network_factory.h>
#include <tutti/comm/transport/inproc/inproc_transport.h>
#include <tutti/comm/transport/shm/shm_transport.h>

#include <cstdlib>
#include <utility>

namespace tutti::comm {
namespace {

bool outnumber_cpus(int ranks) {
  if (std::getenv("TUTTI_OWN_CPUS") != nullptr) return false;  // the launcher has given each rank CPUs of its own
  const int processors = allowed_processors();
  return processors > 0 && ranks > processors;
}

}  // namespace

NetworkFactory::NetworkFactory(World world, TransportChoice choice, std::shared_ptr<Store> store,
                               std::shared_ptr<TcpListener> listener, Addresses addresses)
    : world_(std::move(world)),
      choice_(choice),
      store_(std::move(store)),
      listener_(std::move(listener)),
      addresses_(std::move(addresses)) {}

std::unique_ptr<Transport> NetworkFactory::make(const GroupMembers& members, Deadline deadline) {
  if (members.world_ranks.size() == 1) return std::move(make_inproc_transports(1).front());
  auto tcp = make_tcp(members);
  if (choice_ == TransportChoice::Tcp) return tcp;
  const std::string formation = members.name + "/" + std::to_string(addresses_.formation);
  auto neighbours = members.is_whole_world(world_.world_size) ? meet_neighbours(members, formation, deadline)
                                                              : known_neighbours(members, formation, deadline);
  if (!neighbours) return tcp;
  return std::make_unique<ShmTransport>(std::move(tcp), std::move(neighbours), identity_hash(members.name));
}

std::string NetworkFactory::key_of(const std::string& group) const {
  return addresses_.formation == 0 ? group : group + "/" + std::to_string(addresses_.formation);
}

/// Of the whole world: the ranks of this host wait for each other.
std::unique_ptr<Neighbours> NetworkFactory::meet_neighbours(const GroupMembers& members, const std::string& formation,
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

/// Of a sub-group: waits for no rank.
std::unique_ptr<Neighbours> NetworkFactory::known_neighbours(const GroupMembers& members, const std::string& formation,
                                                             Deadline deadline) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < members.world_ranks.size(); ++rank)
    if (shares_memory_[static_cast<std::size_t>(members.world_ranks[rank])]) ranks.push_back(static_cast<int>(rank));
  return join_known_neighbours(*store_, formation, members.rank, ranks, deadline);
}

std::unique_ptr<TcpTransport> NetworkFactory::make_tcp(const GroupMembers& members) {
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

}  // namespace tutti::comm
