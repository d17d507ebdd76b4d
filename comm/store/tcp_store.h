// TcpStore: client of a TcpStoreServer on another process or host.
//
// One connection, opened and authenticated (wire/handshake.h) by the constructor; another is opened, and kept, for a
// call that finds all in use by other threads. The destructor says goodbye, so that the server can tell an orderly end
// from a lost rank. A server that goes away ends every call at once with PeerLost, and so all later ones: its keys are
// gone with it. A forked child gets InvalidArgument and must make its own.
//
// Thread-safety and deadlines: as Store. The server says which keys a wait has missed; its reply may arrive
// up to one second after the deadline. A call other than a wait that throws Timeout may still be carried out later.
#pragma once

#include <tutti/comm/store/store.h>

#include <memory>

namespace tutti::comm {

struct TcpStoreOptions {
  std::string host = "";
  std::uint16_t port = 0;
  std::string job_id = "default";
  std::string job_secret = "";
  int rank = -1;  // -1: not a rank
  int world_size = -1;
};

class TcpStore final : public Store {
 public:
  /// Retries a refused or unreachable address with back-off until `deadline`. Throws Timeout listing the attempts; at
  /// once Unauthorized (wrong secret, job or world size) and Protocol (something else listens there).
  TcpStore(const TcpStoreOptions& options, Deadline deadline);
  ~TcpStore() override;

  /// The local address of the connection to the server: the address that other ranks can reach this one by.
  std::string local_address() const;
  /// The server's end of it, as a number: what other processes of this host can reach the server by.
  std::string server_address() const;

 private:
  StoreResult do_call(const StoreRequest& request, Deadline deadline) override;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::comm
