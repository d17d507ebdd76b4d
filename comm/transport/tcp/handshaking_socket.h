// HandshakingSocket: one TCP connection on its way from connect or accept to authenticated.
//
// A state machine without threads: advance() does what can be done without blocking. Built on wire/handshake.h,
// which with encryption runs inside of TLS (tls_session.h) and is bound to that connection. A rank with encryption and
// one without refuse each other as strangers: their group does not form anyway (bootstrap/settings.h).
// Thread-safety: none; the owner serialises.
#pragma once

#include <tutti/comm/transport/tcp/tls_session.h>
#include <tutti/comm/wire/handshake.h>

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace tutti::comm {

class HandshakingSocket {
 public:
  /// The connecting side: starts connecting to `address`. `tls` is null without encryption, else outlives this.
  HandshakingSocket(asio::io_context& context, const asio::ip::tcp::endpoint& address, const PeerIdentity& self,
                    std::string_view job_secret, const TlsContext* tls = nullptr);

  /// The decisions of the accepting side. Both functions are called again at each advance() until they decide.
  struct Host {
    /// What a peer that has proved the secret must agree with: nothing yet if its group has not been formed in this
    /// process so far. Throws PeerLost if that group is over.
    std::function<std::optional<PeerIdentity>(const PeerIdentity& peer)> expect;
    /// Whether a peer that agrees is let in now.
    std::function<bool(const PeerIdentity& peer)> admit = [](const PeerIdentity&) { return true; };
  };

  /// The accepting side.
  HandshakingSocket(asio::ip::tcp::socket accepted, Host host, std::string_view job_secret,
                    const TlsContext* tls = nullptr);

  /// True once both sides have proved the secret; then take() the connection. Throws PeerLost, Protocol, Unauthorized.
  bool advance();

  /// Connecting side: no process has answered at all.
  bool is_connecting() const { return state_ == State::Connecting; }

  /// Connecting side: from now on the proof is kept back, which is what commits both ends to this connection. One that
  /// has been answered() goes on after let_prove().
  void hold_proof() { may_prove_ = false; }
  void let_prove() { may_prove_ = true; }
  bool answered() const { return state_ == State::AwaitChallenge && received_size_ == kChallengeBytes; }

  /// Accepting side: the peer has proved the secret, and its group is not there yet, or does not admit it yet.
  bool awaits_group() const { return state_ == State::AwaitGroup; }
  /// Sends a verdict that refuses the peer with `objection`; the next advance() throws Unauthorized with it.
  void refuse(const std::string& objection);

  ByteStream take() { return std::move(stream_); }
  const PeerIdentity& peer() const { return server_->peer(); }  // accepting side, after advance() returned true
  int native_handle() { return stream_.native_handle(); }
  bool wants_to_write() const {
    return state_ == State::Connecting || sent_ < to_send_.size() || (tls_session_ && tls_session_->has_unsent());
  }
  std::chrono::steady_clock::time_point started() const { return started_; }
  std::string remote() const { return remote_; }
  /// Accepting side: whether a peer that leaves now has ended, or has another connection to this rank: it stands
  /// between two messages. A peer with another secret sends a wrong proof or TLS's alert.
  bool is_silent() const {
    return received_size_ == 0 && (state_ == State::Tls || state_ == State::AwaitHello || state_ == State::AwaitProof);
  }

 private:
  enum class State {
    Connecting,
    Tls,
    AwaitHello,
    AwaitChallenge,
    AwaitProof,
    AwaitGroup,
    AwaitVerdict,
    Refusing,
    Done
  };

  bool step();  // true if the state changed
  void connected();
  bool advance_tls();
  void begin_handshake();
  void answer_challenge();
  bool find_group();  // AwaitGroup: true if the verdict has been given
  void decide(const std::string& objection);
  void send(std::span<const std::byte> bytes);
  bool flush();                      // true when everything queued has left
  bool receive(std::size_t nbytes);  // true when received_ holds nbytes
  [[noreturn]] void cannot_connect(int error_number) const;
  [[noreturn]] void lost(const std::string& why) const;
  std::span<const std::byte> received() const { return {received_.data(), received_size_}; }

  ByteStream stream_;
  std::string remote_;
  std::string remote_host_;  // connecting side
  State state_;
  const TlsContext* tls_;
  std::unique_ptr<TlsSession> tls_session_;  // State::Tls
  std::string proof_key_;                    // the job secret; inside of TLS, together with what only its ends know
  std::optional<PeerIdentity> self_;         // connecting side
  bool may_prove_ = true;
  std::optional<ClientHandshake> client_;
  std::optional<ServerHandshake> server_;
  Host host_;                                       // accepting side
  std::array<std::byte, kProofBytes> proof_;        // AwaitGroup: what the verdict answers
  std::chrono::steady_clock::time_point looked_{};  // AwaitGroup: when the peer was last checked
  std::vector<std::byte> to_send_;
  std::size_t sent_ = 0;
  std::array<std::byte, kVerdictBytes> received_{};
  std::size_t received_size_ = 0;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::comm
