// How a TcpLink sends and reads payloads through its channel (bulk.h).
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::chrono::seconds kBrokenFor(1);  // the end of the connection, which says more, comes sooner
constexpr std::size_t kAligned = 16;           // any element

}  // namespace

/// The connection is new: it takes a few hundred bytes at once.
void TcpLink::greet() {
  channel_ = bulk_.open();
  const std::string greeting = channel_->greeting();
  FrameHeader frame;
  frame.kind = FrameKind::Greeting;
  frame.nbytes = greeting.size();
  const FrameBytes header = encode(frame);
  asio::error_code error;
  const std::array<asio::const_buffer, 2> parts{asio::buffer(header), asio::buffer(greeting)};
  if (greeting.size() > kMostGreetingBytes || socket_->write_some(parts, error) != asio::buffer_size(parts))
    end_stream("it takes no greeting of " + std::to_string(greeting.size()) + " bytes");
}

/// Whether the peer's greeting has come.
bool TcpLink::is_met() {
  if (met_) return true;
  fill();
  const auto nbytes = [&] { return current_ ? current_->nbytes : 0; };
  if (!current_ && buffered() >= kFrameHeaderBytes) take_header();
  if (current_ && (current_->kind != FrameKind::Greeting || nbytes() > kMostGreetingBytes))
    throw Error(ErrorCode::Protocol, "from " + describe_() + ": no greeting came first: do all ranks use UCX?");
  if (!current_ || buffered() < nbytes()) {
    if (end_of_stream_) lost(end_reason_);
    return false;
  }
  channel_->meet(std::string(reinterpret_cast<const char*>(buffer_.data() + begin_), nbytes()));
  begin_ += nbytes();
  current_.reset();
  return met_ = true;
}

bool TcpLink::sends_bulk() const {
  return !queue_.empty() && queue_.front()->header.bulk && queue_.front()->written_ >= kFrameHeaderBytes;
}

/// True if some of the payload has left.
bool TcpLink::advance_bulk() {
  if (!is_met()) return false;
  const Outgoing& frame = *queue_.front();
  const std::uint64_t done = frame.written_ - kFrameHeaderBytes;
  const std::size_t left = channel_->send(static_cast<const std::byte*>(frame.payload) + done,
                                          static_cast<std::size_t>(frame.header.nbytes - done));
  if (left == 0) check_bulk();
  note_sent(left);
  return left > 0;
}

std::size_t TcpLink::read_bulk(void* into, std::size_t nbytes) {
  std::size_t got = 0;
  while (got < nbytes && payload_left_ > 0) {
    const auto there = channel_->readable();
    if (there.empty()) break;
    const std::size_t more = std::min(there.size(), nbytes - got);
    std::memcpy(static_cast<std::byte*>(into) + got, there.data(), more);
    got += more;
    payload_left_ -= more;
    channel_->consume(more);
  }
  if (payload_left_ == 0) {
    current_.reset();
  } else if (got == 0 && nbytes > 0) {
    check_bulk();
  }
  return got;
}

void TcpLink::check_bulk() {
  fill();  // finds the end of the stream
  if (end_of_stream_ && channel_->readable().empty()) lost(end_reason_);
  const std::string failure = channel_->failure();
  if (failure.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  if (!bulk_broken_since_) bulk_broken_since_ = now;
  if (now - *bulk_broken_since_ >= kBrokenFor) lost(failure);
}

std::span<const std::byte> TcpLink::readable() {
  if (!reads_bulk()) return {};
  const auto there = channel_->readable();
  return reinterpret_cast<std::uintptr_t>(there.data()) % kAligned == 0 ? there : std::span<const std::byte>();
}

void TcpLink::consume(std::size_t nbytes) {
  channel_->consume(nbytes);
  payload_left_ -= nbytes;
  if (payload_left_ == 0) current_.reset();
}

}  // namespace tutti::comm
