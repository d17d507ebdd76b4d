// TorchStoreServer: a store that PyTorch's TCPStore clients can use: the same keys, operations and bytes as their own.
//
// With it a job of PyTorch ranks meets at the launcher's store (TORCHELASTIC_USE_AGENT_STORE=True), as under torchrun.
// The protocol knows no secret: any process that reaches the port may read and write every key. So it binds exactly the
// address it is given, and holds nothing of Tutti's own.
//
// One thread, one event loop (store_loop.h); nothing in it waits for a client. A client that does not take its replies
// is not read from until it has; one with many requests takes turns with the others. Lengths are checked before memory
// is taken (torch_request.h), and all clients together may make the server hold `max_bytes`. A violation of the
// protocol, and what PyTorch's server drops a client for, closes that client's connection, with a line in the log
// (level Warn, 100 of them in 10 s). When descriptors run out, new connections are closed; the program keeps 32 for
// itself.
//
// Speaks to PyTorch 1.8 up to the newest (2.15 at the time of writing): torch_request.h tells the generations apart.
// Thread-safety: methods may be called from any thread. The destructor stops the loop and closes all connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tutti::comm {

struct TorchStoreServerOptions {
  std::string bind_address = "127.0.0.1";  // exactly this address is bound; "" or "::" = all interfaces
  std::uint16_t port = 0;                  // 0: the kernel picks one; read it back with port()
  std::size_t max_bytes = std::size_t{1} << 30;
};

class TorchStoreServer {
 public:
  /// Binds, listens and starts serving. Throws InvalidArgument if the address cannot be resolved, System if it is
  /// taken.
  explicit TorchStoreServer(const TorchStoreServerOptions& options);
  ~TorchStoreServer();
  TorchStoreServer(const TorchStoreServer&) = delete;
  TorchStoreServer& operator=(const TorchStoreServer&) = delete;

  std::uint16_t port() const;
  std::size_t client_count() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::comm
