// HandshakingSocket: one TCP connection on its way from connect or accept to authenticated.
//
// A state machine without threads: advance() does what can be done without blocking. Built on bootstrap/handshake.h.
// Thread-safety: none; the owner serialises.
#pragma once

#include <tutti/comm/bootstrap/handshake.h>

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <string>

namespace tutti::comm {

class HandshakingSocket {
 public:
  /// The connecting side: starts connecting to `address`.
  HandshakingSocket(asio::io_context& context, const asio::ip::tcp::endpoint& address, const PeerIdentity& self,
                    std::string_view job_secret);

  /// The accepting side.
  HandshakingSocket(asio::ip::tcp::socket accepted, const PeerIdentity& self, std::string_view job_secret);

  /// True once both sides have proved the secret; then take() the socket. Throws PeerLost, Protocol, Unauthorized.
  bool advance();

  asio::ip::tcp::socket take() { return std::move(socket_); }
  const PeerIdentity& peer() const { return server_->peer(); }  // accepting side, after advance() returned true
  int native_handle() { return socket_.native_handle(); }
  bool wants_to_write() const { return state_ == State::Connecting || sent_ < to_send_.size(); }
  std::chrono::steady_clock::time_point started() const { return started_; }
  std::string remote() const { return remote_; }
  /// Accepting side: whether anything has come at all.
  bool heard_of() const { return state_ != State::AwaitHello || received_size_ > 0; }

 private:
  enum class State { Connecting, AwaitHello, AwaitChallenge, AwaitProof, AwaitVerdict, Refusing, Done };

  bool step();  // true if the state changed
  void send(std::span<const std::byte> bytes);
  bool flush();                      // true when everything queued has left
  bool receive(std::size_t nbytes);  // true when received_ holds nbytes
  [[noreturn]] void lost(const std::string& why) const;
  std::span<const std::byte> received() const { return {received_.data(), received_size_}; }

  asio::ip::tcp::socket socket_;
  std::string remote_;
  State state_;
  std::optional<ClientHandshake> client_;
  std::optional<ServerHandshake> server_;
  std::vector<std::byte> to_send_;
  std::size_t sent_ = 0;
  std::array<std::byte, kVerdictBytes> received_{};
  std::size_t received_size_ = 0;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::comm
