#include <tutti/comm/store/store_connection.h>
#include <tutti/comm/store/store_loop.h>
#include <tutti/comm/wire/printable.h>

#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::size_t kIdleBytes = 4096;  // an idle connection keeps no more than this, each way
constexpr std::size_t kLargeRead = 64 * 1024;
constexpr std::size_t kUnreadRepliesLimit = 64 * 1024;  // of a client that is read from

}  // namespace

StoreConnection::StoreConnection(asio::ip::tcp::socket socket, std::uint64_t id, std::string address,
                                 std::unique_ptr<StoreCodec> codec, StoreLoop& loop)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      id_(id),
      address_(std::move(address)),
      loop_(loop),
      codec_(std::move(codec)),
      in_(kIdleBytes) {}

void StoreConnection::start(std::chrono::milliseconds patience) {
  if (patience.count() == 0) {
    admit();
  } else {
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && !self->closed_ && !self->admitted_) self->show_out("did not finish the handshake in time");
    });
  }
  read();
}

void StoreConnection::admit() {
  admitted_ = true;
  timer_.cancel();
  loop_.admitted(*this);
}

void StoreConnection::send(std::string message) {
  if (closed_) return;
  if (out_.empty()) {
    out_ = std::move(message);
  } else {
    out_ += message;
  }
  if (!taking_) write();
}

bool StoreConnection::takes_replies() {
  stopped_ = closed_ || unsent() > kUnreadRepliesLimit;
  return !stopped_;
}

void StoreConnection::close(const std::string& how) {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  codec_->left(*this, how);
  loop_.left(*this);
}

void StoreConnection::read() {
  if (closed_ || reading_ || stopped_ || unsent() > kUnreadRepliesLimit) return;
  reading_ = true;
  const auto free_space = asio::buffer(in_.data() + end_, in_.size() - end_);
  socket_.async_read_some(free_space, [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
    self->reading_ = false;
    if (self->closed_) return;
    if (error) return self->close(error.message());
    self->end_ += count;
    self->proceed();
  });
}

/// Has the codec take what has come, then reads on. Not while a read is pending: that owns the buffer's free space.
void StoreConnection::proceed() {
  try {
    stopped_ = false;
    taking_ = true;
    codec_->take(*this);
    taking_ = false;
    write();
  } catch (const std::exception& failed) {  // no client of this server, or no memory for its request
    taking_ = false;
    return show_out(failed.what());
  }
  if (closed_) return;
  make_room();
  read();
}

void StoreConnection::show_out(const std::string& why) {
  const std::string sent = unread().empty() ? "" : "; it sent " + quote_bytes(unread());
  loop_.strangers().tell("closed " + address_ + ": " + why + sent);
  close();
}

/// Longer requests, and streams of them, get a larger buffer.
void StoreConnection::make_room() {
  const bool filled = end_ == in_.size();
  const std::size_t kept = end_ - begin_;
  if (begin_ > 0) std::memmove(in_.data(), in_.data() + begin_, kept);
  begin_ = 0;
  end_ = kept;
  if (kept == in_.size() || (kept == 0 && filled && in_.size() < kLargeRead)) {
    in_.resize(in_.size() * 2);
  } else if (kept == 0 && !filled && in_.size() > kIdleBytes) {
    in_ = std::vector<std::byte>(kIdleBytes);
  }
}

/// Sends what is queued, unless something is on its way; then reads on, if that has stopped for lack of room.
void StoreConnection::write() {
  if (closed_ || !sending_.empty()) return;
  if (out_.empty() && closes_) return close();
  if (out_.empty()) return;
  sending_ = std::exchange(out_, {});
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      self->sending_ = std::string();
                      if (self->closed_) return;
                      if (error) return self->close(error.message());
                      self->write();
                      if (!self->closed_ && !self->reading_) self->proceed();
                    });
}

}  // namespace tutti::comm
