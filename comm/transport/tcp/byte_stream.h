// ByteStream: a TCP socket, or TLS over one (tls_session.h), behind the two calls that never block.
//
// Without TLS a call is the socket's own, behind one branch that is always the same. Internal to tcp/.
// Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/transport/tcp/tls_session.h>

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <span>
#include <utility>

namespace tutti::comm {

class ByteStream {
 public:
  explicit ByteStream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  /// From now on bytes go through `session`, which must be over this socket and done with its handshake.
  void encrypt(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }

  /// Both transfer up to as many bytes as there is room for; `error` is asio's would_block, eof or the connection's, or
  /// one of tls_category().
  template <typename Parts>
  std::size_t read_some(const Parts& parts, asio::error_code& error) {
    if (!tls_) return socket_.read_some(parts, error);
    return tls_->read_some(std::span(asio::buffer_sequence_begin(parts), asio::buffer_sequence_end(parts)), error);
  }
  template <typename Parts>
  std::size_t write_some(const Parts& parts, asio::error_code& error) {
    if (!tls_) return socket_.write_some(parts, error);
    return tls_->write_some(std::span(asio::buffer_sequence_begin(parts), asio::buffer_sequence_end(parts)), error);
  }

  /// Whether there may be bytes to read that poll(2) does not know of.
  bool has_hidden() const { return tls_ && tls_->has_hidden(); }
  bool is_encrypted() const { return tls_ != nullptr; }

  asio::ip::tcp::socket& socket() { return socket_; }
  int native_handle() { return socket_.native_handle(); }

 private:
  asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;  // goes before its socket
};

}  // namespace tutti::comm
