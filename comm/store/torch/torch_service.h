// TorchStoreService: what a server for PyTorch's TCPStore clients does with their requests: a StoreService (whose keys,
// waits and limits they share with Tutti's own clients), with PyTorch's replies. No sockets, no clock: time limits are
// the clients' own affair (they send CANCEL_WAIT).
//
// Means what PyTorch's own server means, oddities included: COMPARE_SET on a missing key echoes what was expected; GET
// does not wait. A client waits for one thing at a time. One that speaks the legacy protocol has no CANCEL_WAIT: its
// next request ends a wait it has given up.
//
// Thread-safety: none; the server's one thread owns it.
#pragma once

#include <tutti/comm/store/store_service.h>
#include <tutti/comm/store/torch/torch_request.h>

#include <functional>
#include <span>
#include <string>

namespace tutti::comm {

class TorchStoreService {
 public:
  using ClientId = StoreService::ClientId;
  /// Gets one whole reply; must not call back into the service.
  using SendReply = std::function<void(ClientId, std::string message)>;

  /// `max_bytes`: what keys and values may take together.
  TorchStoreService(std::size_t max_bytes, SendReply send_reply);

  void client_joined(ClientId client, const std::string& address) { service_.client_joined(client, {}, address); }
  /// Its connection has ended: its wait is forgotten.
  void client_left(ClientId client) { service_.client_left(client); }

  /// Carries out one request and answers it, now or when its wait ends. Throws Error for what PyTorch's server drops a
  /// client for (ADD to a value that is no number), and when memory or a reply would be over their limits: the protocol
  /// has no error replies. Nothing has changed then, but a MULTI_SET may be half done.
  void handle(ClientId client, TorchGeneration generation, const TorchRequest& request);

  std::size_t waiter_count() const { return service_.waiter_count(); }
  std::size_t stored_bytes() const { return service_.map().bytes(); }

 private:
  void carry_out(ClientId client, TorchQuery query, StoreOp op, std::span<const std::string> strings,
                 std::int64_t number = 0);
  void reply(ClientId client, TorchQuery query, const StoreBody& body);
  void meet(ClientId client, const std::string& key, std::int64_t clients);
  std::string values_of(std::span<const std::string> keys) const;
  std::string all_keys() const;

  SendReply send_reply_;
  StoreService service_;
};

}  // namespace tutti::comm
