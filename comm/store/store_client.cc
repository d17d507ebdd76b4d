#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_client.h>

#include <cerrno>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::size_t kSmallBuffer = 4096;

// A wait is ended at the server, which knows the missing keys; its reply gets this much time to arrive.
constexpr std::chrono::milliseconds kTimeoutReplyGrace{1000};

}  // namespace

StoreClient::StoreClient(const TcpStoreOptions& options, Deadline deadline, bool was_there)
    : StoreClient(host_and_port(options.host, options.port), connect_to_store(options, deadline, was_there)) {}

StoreClient::StoreClient(std::string server, Socket connected)
    : server_(std::move(server)), socket_(std::move(connected)), in_(kSmallBuffer) {}

void StoreClient::lost(const std::string& why) const {
  throw Error(ErrorCode::PeerLost, "the store server at " + server_ + " is gone (" + why + ")");
}

std::optional<StoreReply> StoreClient::call(StoreOp op, const StoreBody& body, Deadline deadline) {
  if (!flush(deadline)) return std::nullopt;  // an earlier call's bytes are still stuck; ours were not added
  const std::uint32_t id = ++last_id_;
  append_store_message(out_, static_cast<std::uint8_t>(op), id, body);
  auto reply = await_reply(id, deadline);
  if (reply || !waits(op)) return reply;
  append_store_message(out_, static_cast<std::uint8_t>(StoreOp::EndWaits), ++last_id_, {});
  return await_reply(id, Deadline::after(kTimeoutReplyGrace));
}

std::optional<StoreReply> StoreClient::await_reply(std::uint32_t id, Deadline until) {
  while (true) {
    send_some();
    if (auto reply = take_reply(id)) return reply;
    const short events = static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
    if (!poll_until(socket_.get(), events, until)) return std::nullopt;
    while (receive_some()) {
    }
  }
}

void StoreClient::say_goodbye() noexcept {
  try {
    if (!out_.empty()) return;
    append_store_message(out_, static_cast<std::uint8_t>(StoreOp::Goodbye), ++last_id_, {});
    send_some();
  } catch (const std::exception&) {
    // The server is gone, or memory is short: the goodbye is lost.
  }
}

bool StoreClient::flush(Deadline until) {
  while (!send_some()) {
    if (!poll_until(socket_.get(), POLLOUT, until)) return false;
  }
  return true;
}

/// True when nothing is left to send.
bool StoreClient::send_some() {
  while (sent_ < out_.size()) {
    const ssize_t count = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      lost(errno_text(errno));
    }
  }
  out_.clear();
  if (out_.capacity() > kSmallBuffer) out_.shrink_to_fit();
  sent_ = 0;
  return true;
}

/// True if there may be more to receive at once.
bool StoreClient::receive_some() {
  if (have_ == in_.size()) {
    if (have_ > kStoreHeaderBytes + kMaxStoreBodyBytes) return false;
    in_.resize(in_.size() * 2);
  }
  const std::size_t space = in_.size() - have_;
  const ssize_t count = ::recv(socket_.get(), in_.data() + have_, space, 0);
  if (count > 0) {
    have_ += static_cast<std::size_t>(count);
    return static_cast<std::size_t>(count) == space;
  }
  if (count == 0) lost("it closed the connection");
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) lost(errno_text(errno));
  return errno == EINTR;
}

/// Replies to calls that were given up come first and are dropped.
std::optional<StoreReply> StoreClient::take_reply(std::uint32_t id) {
  while (have_ >= kStoreHeaderBytes) {
    const StoreHeader header = decode_store_header(std::span(in_).first<kStoreHeaderBytes>());
    if (header.body_bytes > kMaxStoreBodyBytes) {
      throw Error(ErrorCode::Protocol, "the store server at " + server_ + " announced a reply of " +
                                           std::to_string(header.body_bytes) + " bytes");
    }
    const std::size_t message_bytes = kStoreHeaderBytes + header.body_bytes;
    if (have_ < message_bytes) return std::nullopt;
    const StoreBody body = decode_store_body(std::span(in_).subspan(kStoreHeaderBytes, header.body_bytes));
    std::optional<StoreReply> reply;
    if (header.id == id) {
      reply =
          StoreReply{{body.number, {body.strings.begin(), body.strings.end()}}, static_cast<StoreStatus>(header.code)};
    }
    have_ -= message_bytes;
    std::memmove(in_.data(), in_.data() + message_bytes, have_);
    if (have_ == 0 && in_.size() > kSmallBuffer) in_ = std::vector<std::byte>(kSmallBuffer);
    if (reply) return reply;
  }
  return std::nullopt;
}

}  // namespace tutti::comm
