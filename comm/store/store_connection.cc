#include <sys/socket.h>
#include <tutti/comm/store/store_connection.h>
#include <tutti/comm/store/store_loop.h>
#include <tutti/comm/wire/printable.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::size_t kIdleBytes = 4096;  // an idle connection keeps no more than this, each way
constexpr std::size_t kLargeRead = 64 * 1024;
constexpr std::size_t kUnreadRepliesLimit = 64 * 1024;  // of a client that is read from

}  // namespace

void StoreCodec::ended(StoreConnection&, const std::string&) {}

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
  if (!taking_) flush();
}

bool StoreConnection::takes_replies() {
  if (unsent() > kUnreadRepliesLimit) flush();
  stopped_ = closed_ || unsent() > kUnreadRepliesLimit;
  return !stopped_;
}

void StoreConnection::close() {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  codec_->left(*this);
  loop_.left(*this);
}

void StoreConnection::read() {
  if (closed_ || reading_ || stopped_ || unsent() > kUnreadRepliesLimit) return;
  reading_ = true;
  const auto free_space = asio::buffer(in_.data() + end_, in_.size() - end_);
  socket_.async_read_some(free_space, [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
    self->reading_ = false;
    if (self->closed_) return;
    if (error) return self->end(error);
    self->end_ += count;
    self->proceed();
  });
}

/// Has the codec take what has come, then reads on. Not while a read is pending: that owns the buffer's free space.
void StoreConnection::proceed() {
  try {
    do {
      stopped_ = false;
      taking_ = true;
      codec_->take(*this);
      taking_ = false;
      flush();
    } while (stopped_ && !closed_ && unsent() == 0);
  } catch (const std::exception& failed) {  // no client of this server, or no memory for its request
    taking_ = false;
    return show_out(failed.what());
  }
  if (closed_) return;
  make_room();
  read();
}

void StoreConnection::end(const asio::error_code& error) {
  codec_->ended(*this, error.message());
  close();
}

void StoreConnection::show_out(const std::string& why) {
  const std::string sent = unread().empty() ? "" : "; it sent " + quote_bytes(unread());
  loop_.strangers().tell(loop_.name() + ": closed " + address_ + ": " + why + sent, Clock::now());
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

/// Sends what the socket takes now. 0 when nothing is left, EAGAIN when it takes no more, else what broke it.
int StoreConnection::send_some() {
  while (unsent() > 0) {
    const ssize_t count = ::send(socket_.native_handle(), out_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Moving what is left is paid for by what has left.
      if (sent_ > out_.size() / 2) out_.erase(0, std::exchange(sent_, 0));
      return EAGAIN;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  sent_ = 0;
  out_.clear();
  if (out_.capacity() > kIdleBytes) out_ = std::string();
  return 0;
}

/// Sends what the connection takes now, and the rest when it takes more.
void StoreConnection::flush() {
  if (closed_ || awaiting_room_) return;
  const int result = send_some();
  if (result == EAGAIN) return flush_when_there_is_room();
  if (result != 0) return end_soon(asio::error_code(result, asio::system_category()));
  if (closes_) close();
}

/// Not at once: the service may be answering several clients now.
void StoreConnection::end_soon(const asio::error_code& error) {
  awaiting_room_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this(), error] {
    if (!self->closed_) self->end(error);
  });
}

void StoreConnection::flush_when_there_is_room() {
  awaiting_room_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code& error) {
    self->awaiting_room_ = false;
    if (self->closed_) return;
    // The read notices and logs a broken connection; but a full one was not being read.
    if (error) return self->end(error);
    self->flush();
    if (!self->closed_ && !self->reading_) self->proceed();
  });
}

}  // namespace tutti::comm
