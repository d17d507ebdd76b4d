// TcpListener: the one listening socket of a transport, and the connections that are still proving who they are.
//
// A stranger, a half-open connection or a burst of them delays nobody: nothing here blocks, a connection that has not
// finished its handshake in time is dropped, and every refusal is logged with its address and reason.
// Thread-safety: service() may be called by any thread; a second caller returns at once.
#pragma once

#include <tutti/comm/transport/tcp/handshaking_socket.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace tutti::comm {

class TcpListener {
 public:
  using Adopt = std::function<void(const PeerIdentity& peer, asio::ip::tcp::socket socket)>;

  /// Binds `address` (numeric) on a port of the kernel's choice and listens. Throws System naming the address.
  TcpListener(asio::io_context& context, const std::string& address, const PeerIdentity& self, std::string job_secret,
              std::chrono::milliseconds handshake_limit, Adopt adopt);

  std::string endpoint() const;  // "10.0.0.2:40913"

  /// True if a connection was handed over.
  bool service();

  /// Descriptors to poll for reading: the listener, while it can accept, and the unfinished connections.
  std::vector<int> descriptors();

  /// Closes the port and the unfinished connections.
  void close();

 private:
  bool can_accept() const;
  void accept_all();
  enum class Outcome { Pending, HandedOver, Dropped };
  Outcome advance(HandshakingSocket& inbound);

  asio::ip::tcp::acceptor acceptor_;
  const PeerIdentity self_;
  const std::string job_secret_;
  const std::chrono::milliseconds handshake_limit_;
  const Adopt adopt_;
  std::mutex mutex_;  // guards all below, and acceptor_'s use
  std::list<HandshakingSocket> inbound_;
  std::chrono::steady_clock::time_point accept_again_{};  // not before this
};

}  // namespace tutti::comm
