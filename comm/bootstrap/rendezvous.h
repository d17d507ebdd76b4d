// Rendezvous: from "I am rank r of n" to a store, a transport that reaches every rank, and what sub-groups need.
//
// Called by ProcessGroup::connect. Nothing here outlives the call but what it returns.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/transport/transport.h>
#include <tutti/comm/transport/transport_factory.h>

#include <chrono>
#include <memory>
#include <string>

namespace tutti::comm {

struct Meeting {
  std::shared_ptr<Store> store;  // keeps the server alive, too, where this rank started it
  std::unique_ptr<Transport> transport;
  std::shared_ptr<TransportFactory> factory;  // made `transport`, and makes those of sub-groups: no store traffic
};

/// Blocks until all ranks have published their addresses. A world of one meets nobody: in-process store, no sockets.
/// `bind_address` "": the local address of the connection to the store, which is one that other ranks can reach.
/// Throws Timeout naming the ranks that did not come and where they were expected, PeerLost naming one that came and
/// died, Unauthorized, System.
Meeting rendezvous(const World& world, const std::string& group, const std::string& bind_address,
                   std::chrono::milliseconds timeout);

}  // namespace tutti::comm
