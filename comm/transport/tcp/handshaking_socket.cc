#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/printable.h>
#include <tutti/comm/transport/tcp/handshaking_socket.h>
#include <tutti/comm/transport/tcp/socket_util.h>

#include <algorithm>
#include <asio/buffer.hpp>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kLookForTheEnd(50);  // so often, at connections that wait for a group

}  // namespace

HandshakingSocket::HandshakingSocket(asio::io_context& context, const asio::ip::tcp::endpoint& address,
                                     const PeerIdentity& self, std::string_view job_secret)
    : socket_(context),
      remote_(to_string(address)),
      state_(State::Connecting),
      client_(ClientHandshake(self, job_secret)) {
  asio::error_code error;
  socket_.open(address.protocol(), error);
  if (error) throw Error(ErrorCode::System, "cannot open a socket to " + remote_ + ": " + error.message());
  prepare(socket_);
  socket_.connect(address, error);
  if (error && error != asio::error::in_progress && error != asio::error::would_block)
    throw Error(ErrorCode::PeerLost, "cannot connect to " + remote_ + ": " + error.message());
}

HandshakingSocket::HandshakingSocket(asio::ip::tcp::socket accepted, Expectation expect, std::string_view job_secret)
    : socket_(std::move(accepted)),
      state_(State::AwaitHello),
      server_(ServerHandshake({}, job_secret)),
      expect_(std::move(expect)) {
  asio::error_code error;
  remote_ = to_string(socket_.remote_endpoint(error));
  prepare(socket_);
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
      pollfd ready{socket_.native_handle(), POLLOUT, 0};
      if (::poll(&ready, 1, 0) == 0) return false;
      int error_number = 0;
      socklen_t size = sizeof error_number;
      ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error_number, &size);
      if (error_number != 0)
        throw Error(ErrorCode::PeerLost, "cannot connect to " + remote_ + ": " + errno_text(error_number));
      send(client_->hello());
      state_ = State::AwaitChallenge;
      return true;
    }
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
      if (!receive(kChallengeBytes)) return false;
      send(client_->answer(received().first<kChallengeBytes>()));
      state_ = State::AwaitVerdict;
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

bool HandshakingSocket::find_group() {
  if (const auto expected = expect_(server_->peer())) {
    server_->expect(*expected);
    decide("");
    return true;
  }
  // The peer waits for the verdict: it has nothing to say, and may give up, which need not be known at once.
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

void HandshakingSocket::lost(const std::string& why) const {
  std::string text = "lost " + remote_ + " during the handshake: " + why;
  if (state_ == State::AwaitHello) text += "; it sent " + quote_bytes(received());
  if (state_ == State::AwaitProof)
    text += "; it left when it saw our challenge: its job secret is probably another (compare TUTTI_JOB_SECRET)";
  throw Error(ErrorCode::PeerLost, text);
}

bool HandshakingSocket::flush() {
  while (sent_ < to_send_.size()) {
    asio::error_code error;
    sent_ += socket_.write_some(asio::buffer(to_send_.data() + sent_, to_send_.size() - sent_), error);
    if (error == asio::error::would_block) return false;
    if (error) lost(error.message());
  }
  return true;
}

bool HandshakingSocket::receive(std::size_t nbytes) {
  while (received_size_ < nbytes) {
    asio::error_code error;
    received_size_ +=
        socket_.read_some(asio::buffer(received_.data() + received_size_, nbytes - received_size_), error);
    if (error == asio::error::would_block) return false;
    if (error) lost(error.message());
  }
  return true;
}

}  // namespace tutti::comm
