// NetworkFactory: makes a process's transports, for the group of all ranks and for those split from it.
//
// Thread-safety: none; ProcessGroup makes one group at a time.
#pragma once

#include <tutti/comm/bootstrap/address_exchange.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <tutti/comm/transport/transport_factory.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::comm {

class NetworkFactory final : public TransportFactory {
 public:
  /// `listener`, `store` and `addresses` are empty in a world of one.
  NetworkFactory(World world, TransportChoice choice, std::shared_ptr<Store> store,
                 std::shared_ptr<TcpListener> listener, Addresses addresses);

  /// Throws InvalidArgument where shared memory was asked for and this rank shares none.
  std::unique_ptr<Transport> make(const GroupMembers& members, Deadline deadline) override;
  std::string key_of(const std::string& group) const override;

 private:
  std::unique_ptr<Neighbours> meet_neighbours(const GroupMembers& members, const std::string& formation,
                                              Deadline deadline);
  std::unique_ptr<Neighbours> known_neighbours(const GroupMembers& members, const std::string& formation,
                                               Deadline deadline);
  std::unique_ptr<TcpTransport> make_tcp(const GroupMembers& members);

  const World world_;
  const TransportChoice choice_;
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<TcpListener> listener_;
  const Addresses addresses_;  // by rank of the world, as the next
  std::vector<bool> shares_memory_ = std::vector<bool>(static_cast<std::size_t>(world_.world_size));  // with this rank
};

}  // namespace tutti::comm
