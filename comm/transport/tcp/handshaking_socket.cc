#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/handshaking_socket.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <cerrno>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kLookForTheEnd(50);  // how often connections that wait for a group are checked

}  // namespace

HandshakingSocket::HandshakingSocket(asio::io_context& context, const asio::ip::tcp::endpoint& address,
                                     const PeerIdentity& self, std::string_view job_secret, const TlsContext* tls)
    : stream_(asio::ip::tcp::socket(context)),
      remote_(to_string(address)),
      remote_host_(address.address().to_string()),
      state_(State::Connecting),
      tls_(tls),
      proof_key_(job_secret),
      self_(self) {
  asio::ip::tcp::socket& socket = stream_.socket();
  asio::error_code error;
  socket.open(address.protocol(), error);
  if (error) throw Error(ErrorCode::System, "cannot open a socket to " + remote_ + ": " + error.message());
  prepare(socket);
  // Not by Asio, whose connect() waits for the end, without a limit, on a non-blocking socket, too.
  if (::connect(native_handle(), address.data(), static_cast<socklen_t>(address.size())) != 0 && errno != EINPROGRESS)
    cannot_connect(errno);
}

HandshakingSocket::HandshakingSocket(asio::ip::tcp::socket accepted, Host host, std::string_view job_secret,
                                     const TlsContext* tls)
    : stream_(std::move(accepted)), state_(State::Tls), tls_(tls), proof_key_(job_secret), host_(std::move(host)) {
  asio::error_code error;
  remote_ = to_string(stream_.socket().remote_endpoint(error));
  prepare(stream_.socket());
  prepare_connected(stream_.socket());
  if (!tls_) begin_handshake();
}

bool HandshakingSocket::advance() {
  while (step()) {
  }
  return state_ == State::Done && sent_ == to_send_.size();
}

bool HandshakingSocket::step() {
  if (state_ != State::Connecting && !flush()) return false;
  switch (state_) {
    case State::Connecting: {
      pollfd ready{native_handle(), POLLOUT, 0};
      if (::poll(&ready, 1, 0) == 0) return false;
      connected();
      return true;
    }
    case State::Tls:
      return advance_tls();
    case State::AwaitHello:
      if (!receive(kHelloBytes)) {
        if (!may_be_hello(received()))
          throw Error(ErrorCode::Protocol, "not a Tutti peer: its first bytes are " + quote_bytes(received()));
        return false;
      }
      send(server_->challenge(received().first<kHelloBytes>()));
      state_ = State::AwaitProof;
      break;
    case State::AwaitChallenge:
      if (!receive(kChallengeBytes) || !may_prove_) return false;
      answer_challenge();
      break;
    case State::AwaitProof:
      if (!receive(kProofBytes)) return false;
      std::copy_n(received_.begin(), kProofBytes, proof_.begin());
      state_ = State::AwaitGroup;
      if (!server_->proves(proof_)) decide("");
      break;
    case State::AwaitGroup:
      if (!find_group()) return false;
      break;
    case State::AwaitVerdict:
      if (!receive(kVerdictBytes)) return false;
      client_->finish(received().first<kVerdictBytes>());
      state_ = State::Done;
      break;
    case State::Refusing:
      throw Error(ErrorCode::Unauthorized, server_->refusal());
    case State::Done:
      return false;
  }
  received_size_ = 0;
  return true;
}

void HandshakingSocket::connected() {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  ::getsockopt(native_handle(), SOL_SOCKET, SO_ERROR, &error_number, &size);
  if (error_number != 0) cannot_connect(error_number);
  prepare_connected(stream_.socket());
  state_ = State::Tls;
  if (!tls_) begin_handshake();
}

bool HandshakingSocket::advance_tls() {
  const auto side = self_ ? TlsSession::Side::Connecting : TlsSession::Side::Accepting;
  if (!tls_session_) tls_session_ = std::make_unique<TlsSession>(*tls_, native_handle(), side);
  if (!tls_session_->handshake()) return false;
  proof_key_ += tls_session_->binding();
  stream_.encrypt(std::move(tls_session_));
  begin_handshake();
  return true;
}

void HandshakingSocket::begin_handshake() {
  if (self_) {
    client_.emplace(*self_, proof_key_);
    send(client_->hello());
    state_ = State::AwaitChallenge;
  } else {
    server_.emplace(PeerIdentity{}, proof_key_);
    state_ = State::AwaitHello;
  }
}

void HandshakingSocket::answer_challenge() {
  try {
    send(client_->answer(received().first<kChallengeBytes>()));
    state_ = State::AwaitVerdict;
  } catch (const Error& error) {
    asio::error_code ignored;
    if (error.code() == ErrorCode::Unauthorized) stream_.write_some(asio::buffer(kNoProof), ignored);
    throw;
  }
}

bool HandshakingSocket::find_group() {
  const auto expected = host_.expect(server_->peer());
  if (expected && (!disagreement(*expected, server_->peer()).empty() || host_.admit(server_->peer()))) {
    server_->expect(*expected);
    decide("");
    return true;
  }
  // The peer waits for the verdict: it sends nothing, and may give up, which need not be known at once.
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLookForTheEnd) return false;
  looked_ = now;
  if (receive(1)) throw Error(ErrorCode::Protocol, "the peer sent bytes before it was let in");
  return false;
}

void HandshakingSocket::decide(const std::string& objection) {
  send(server_->verdict(proof_, objection));
  state_ = server_->accepted() ? State::Done : State::Refusing;
}

void HandshakingSocket::refuse(const std::string& objection) {
  server_->expect(server_->peer());
  decide(objection);
  flush();
}

void HandshakingSocket::send(std::span<const std::byte> bytes) {
  to_send_.assign(bytes.begin(), bytes.end());
  sent_ = 0;
}

void HandshakingSocket::cannot_connect(int error_number) const {
  std::string text = "cannot connect to " + remote_;
  if (const std::string from = route_source(remote_host_); !from.empty()) text += " from " + from;
  text += ": " + errno_text(error_number);
  if (const std::string_view hint = connect_hint(error_number); !hint.empty()) text += " (" + std::string(hint) + ")";
  throw Error(ErrorCode::PeerLost, text);
}

void HandshakingSocket::lost(const std::string& why) const {
  std::string text = "lost " + remote_ + " during the handshake: " + why;
  if (state_ == State::AwaitHello) text += "; it sent " + quote_bytes(received());
  if (state_ == State::AwaitProof)
    text += "; rank " + std::to_string(server_->peer().rank) + " left before it had proved the job secret";
  throw Error(ErrorCode::PeerLost, text);
}

bool HandshakingSocket::flush() {
  while (sent_ < to_send_.size()) {
    asio::error_code error;
    sent_ += stream_.write_some(asio::const_buffer(to_send_.data() + sent_, to_send_.size() - sent_), error);
    if (error == asio::error::would_block) return false;
    if (error) lost(error.message());
  }
  return true;
}

bool HandshakingSocket::receive(std::size_t nbytes) {
  while (received_size_ < nbytes) {
    asio::error_code error;
    received_size_ +=
        stream_.read_some(asio::buffer(received_.data() + received_size_, nbytes - received_size_), error);
    if (error == asio::error::would_block) return false;
    if (error) lost(error.message());
  }
  return true;
}

}  // namespace tutti::comm
