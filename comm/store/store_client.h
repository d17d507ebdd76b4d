// StoreClient: one authenticated connection to a store server; requests out, replies in. Internal to comm/store.
//
// Replies carry the request's number, and half-sent requests and half-read replies are kept, so a call that timed out
// leaves the connection in step. Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

/// Opens an authenticated connection: tries all addresses of options.host, with back-off, until one answers and accepts
/// us. The socket does not block. Throws Timeout listing the attempts; at once Unauthorized (wrong secret, job or world
/// size) and Protocol (something else listens there), when no address of the host did better; PeerLost where the server
/// `was_there` before and now nothing listens.
Socket connect_to_store(const TcpStoreOptions& options, Deadline deadline, bool was_there = false);

struct StoreReply : StoreResult {
  StoreStatus status = StoreStatus::Ok;
};

class StoreClient {
 public:
  /// `connected`: as connect_to_store() returns it; `server` ("host:port") names it in texts.
  StoreClient(std::string server, Socket connected);

  /// Sends one request and waits for its reply; nothing if none has come by `deadline`. A Get or Wait is then told to
  /// the server as over, whose reply of the missing keys may take one second more. Throws PeerLost if the connection
  /// breaks, Protocol if the reply makes no sense; the client is of no use after either.
  std::optional<StoreReply> call(StoreOp op, const StoreBody& body, Deadline deadline);

  /// Tells the server, as far as that goes without waiting, that we leave on purpose.
  void say_goodbye() noexcept;

  std::string local_host() const { return local_endpoint(socket_.get()).host(); }
  std::string remote_host() const { return remote_endpoint(socket_.get()).host(); }

 private:
  std::optional<StoreReply> await_reply(std::uint32_t id, Deadline until);
  bool send_some();
  bool receive_some();
  std::optional<StoreReply> take_reply(std::uint32_t id);
  [[noreturn]] void lost(const std::string& why) const;

  std::string server_;
  Socket socket_;
  std::uint32_t last_id_ = 0;
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  std::vector<std::byte> in_;
  std::size_t have_ = 0;  // of in_
};

}  // namespace tutti::comm
