#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/store_connection.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::size_t kSmallRequests = 4096;
constexpr std::size_t kUnreadRepliesLimit = 64 * 1024;  // of a client that is read from

}  // namespace

StoreConnection::StoreConnection(asio::ip::tcp::socket socket, std::uint64_t id, std::string address,
                                 StoreConnectionHost& host)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      id_(id),
      address_(std::move(address)),
      host_(host),
      handshake_(host.new_handshake()),
      in_(kSmallRequests) {}

void StoreConnection::start() {
  timer_.expires_after(host_.handshake_timeout());
  timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->closed_ && !self->authenticated()) self->show_out("did not finish the handshake in time");
  });
  read();
}

void StoreConnection::send(std::string message) {
  if (closed_) return;
  out_.append(std::move(message));
  if (!taking_requests_) flush();
}

void StoreConnection::close() {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  host_.left(*this);
}

void StoreConnection::read() {
  if (closed_ || reading_ || out_.unsent() > kUnreadRepliesLimit) return;
  reading_ = true;
  const auto free_space = asio::buffer(in_.data() + end_, in_.size() - end_);
  socket_.async_read_some(free_space, [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
    self->reading_ = false;
    if (!self->closed_) self->on_read(error, count);
  });
}

void StoreConnection::on_read(const asio::error_code& error, std::size_t count) {
  if (error) return on_end(error);
  end_ += count;
  proceed();
}

/// Consumes what has come, then reads on. Not while a read is pending: that owns the buffer's free space.
void StoreConnection::proceed() {
  try {
    if (state_ == State::Hello) take_hello();
    if (state_ == State::Proof) take_proof();
    if (state_ == State::Requests) take_requests();
  } catch (const std::exception& failed) {  // a stranger, or no memory for this client's request
    return show_out(failed.what());
  }
  if (closed_) return;
  make_room();
  read();
}

void StoreConnection::on_end(const asio::error_code& error) {
  if (state_ == State::Hello) {
    host_.strangers().tell_of_leaver(address_ + " left before it had said hello", unread(), Clock::now());
  } else if (state_ == State::Proof) {
    host_.strangers().tell_of_leaver(name() + " left before it had proved the job secret", unread(), Clock::now());
  } else if (state_ == State::Requests && !host_.service().said_goodbye(id_)) {
    log(LogLevel::Info, "store: lost " + name() + ": " + error.message());
  }
  close();
}

/// After its hello.
std::string StoreConnection::name() const {
  return address_ + " (rank " + std::to_string(peer().rank) + ", pid " + std::to_string(peer().pid) + ")";
}

void StoreConnection::show_out(const std::string& why) {
  host_.strangers().tell("store: closed " + address_ + ": " + why + "; it sent " + quote_bytes(unread()), Clock::now());
  close();
}

void StoreConnection::take_hello() {
  if (!may_be_hello(unread())) throw Error(ErrorCode::Protocol, "not a Tutti peer");
  if (unread().size() < kHelloBytes) return;
  const auto challenge = handshake_.challenge(unread().first<kHelloBytes>());
  begin_ += kHelloBytes;
  state_ = State::Proof;
  send(std::string(reinterpret_cast<const char*>(challenge.data()), challenge.size()));
}

void StoreConnection::take_proof() {
  if (unread().size() < kProofBytes) return;
  const auto verdict = handshake_.verdict(unread().first<kProofBytes>(), host_.service().objection(handshake_.peer()));
  begin_ += kProofBytes;
  state_ = handshake_.accepted() ? State::Requests : State::Refused;
  if (authenticated()) {
    timer_.cancel();
    host_.joined(*this);
  } else {
    host_.strangers().tell("store: refused " + address_ + ": " + handshake_.refusal(), Clock::now());
  }
  send(std::string(reinterpret_cast<const char*>(verdict.data()), verdict.size()));
}

void StoreConnection::take_requests() {
  taking_requests_ = true;
  while (take_request()) {
  }
  taking_requests_ = false;
  host_.handled_requests();
  flush();
}

/// False if none is complete, or the client must first take replies.
bool StoreConnection::take_request() {
  if (out_.unsent() > kUnreadRepliesLimit) flush();
  if (out_.unsent() > kUnreadRepliesLimit) return false;
  const std::size_t skipped = std::min<std::size_t>(skip_, unread().size());
  begin_ += skipped;
  skip_ -= static_cast<std::uint32_t>(skipped);
  if (unread().size() < kStoreHeaderBytes) return false;
  const StoreHeader header = decode_store_header(unread().first<kStoreHeaderBytes>());
  if (header.body_bytes > kMaxStoreBodyBytes) {
    begin_ += kStoreHeaderBytes;
    skip_ = header.body_bytes;
    host_.service().refuse_oversized(id_, header);
    return true;
  }
  if (unread().size() < kStoreHeaderBytes + header.body_bytes) return false;
  const auto body = unread().subspan(kStoreHeaderBytes, header.body_bytes);
  begin_ += kStoreHeaderBytes + header.body_bytes;
  host_.service().handle(id_, header, body, Clock::now());
  return true;
}

/// By the bytes that have come, not by the length that a header announces.
void StoreConnection::make_room() {
  const std::size_t kept = end_ - begin_;
  if (begin_ > 0) std::memmove(in_.data(), in_.data() + begin_, kept);
  begin_ = 0;
  end_ = kept;
  if (kept == in_.size()) {
    in_.resize(in_.size() * 2);
  } else if (kept == 0 && in_.size() > kSmallRequests) {
    in_ = std::vector<std::byte>(kSmallRequests);
  }
}

/// Sends what the connection takes now, and the rest when it takes more.
void StoreConnection::flush() {
  if (closed_ || awaiting_room_) return;
  const int result = out_.flush(socket_.native_handle());
  if (result == EAGAIN) return flush_when_there_is_room();
  if (result != 0) return end_soon(asio::error_code(result, asio::system_category()));
  if (state_ == State::Refused) close();
}

/// Not at once: the service may be answering several clients now.
void StoreConnection::end_soon(const asio::error_code& error) {
  awaiting_room_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this(), error] {
    if (!self->closed_) self->on_end(error);
  });
}

void StoreConnection::flush_when_there_is_room() {
  awaiting_room_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code& error) {
    self->awaiting_room_ = false;
    if (self->closed_) return;
    // The read notices and logs a broken connection; but a full one was not being read.
    if (error) return self->on_end(error);
    self->flush();
    if (!self->closed_ && !self->reading_) self->proceed();
  });
}

}  // namespace tutti::comm
