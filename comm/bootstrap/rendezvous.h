// Rendezvous: from "I am rank r of n" to a store, a transport that reaches every rank, and what sub-groups need.
//
// Called by ProcessGroup::connect. Only the result outlives the call.
#pragma once

#include <tutti/comm/bootstrap/settings.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/transport/transport.h>

#include <chrono>
#include <memory>
#include <string>

namespace tutti::comm {

struct Meeting {
  // Keeps the server alive, too, where this rank started it; the last reference then waits up to 5 s for the others'
  // stores to be closed.
  std::shared_ptr<Store> store;
  std::unique_ptr<Transport> transport;
  std::shared_ptr<TransportFactory> factory;  // made `transport`, and makes those of sub-groups: no store traffic
};

enum class TransportChoice { Auto, Tcp, Shm, Ucx };

/// "auto", "tcp", "shm" or "ucx"; "" stands for TUTTI_TRANSPORT, else auto. Throws InvalidArgument.
TransportChoice transport_choice(const std::string& name);

/// `option`, or TUTTI_ENCRYPT, which may be 1 or 0. Throws InvalidArgument.
bool encryption_choice(bool option);

struct RendezvousOptions {
  /// If set, the one address that this rank listens at. Else they are chosen (local_address.h): this end of the
  /// connection to the store, and between hosts those of other interfaces, too, or those that `interface` names. System
  /// if that leaves a loopback address in a world of several hosts.
  std::string bind_address;
  std::string interface {};  // "" = TUTTI_IFACE, else any
  /// Auto: shared memory within a host; TCP between hosts, and where all have a card that is up, long payloads by UCX.
  /// Ucx: the same without a look for cards; InvalidArgument where UCX is missing.
  TransportChoice transport = TransportChoice::Auto;
  bool encrypt = false;  // TLS on all TCP connections between ranks
  Settings settings{};   // what must be equal on all ranks
  std::chrono::milliseconds timeout{};
};

/// Blocks until all ranks have published their addresses. A world of one waits for none: in-process store, no sockets.
/// Throws Timeout naming the ranks that did not come and where they were expected, PeerLost naming one that came and
/// died, Unauthorized, Mismatch (settings that differ), InvalidArgument (encryption without a secret), System.
Meeting rendezvous(const World& world, const std::string& group, const RendezvousOptions& options);

}  // namespace tutti::comm
