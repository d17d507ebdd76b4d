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

BulkChannel& TcpLink::channel() {
  if (!bulk_.open)
    throw Error(ErrorCode::Protocol, "from ", describe_(), ": a payload by UCX, which this rank does not use");
  if (!channel_) channel_ = bulk_.open();
  return *channel_;
}

bool TcpLink::sends_bulk() const {
  return !queue_.empty() && queue_.front()->header.bulk_tag != 0 && queue_.front()->written_ >= kFrameHeaderBytes;
}

/// True if some of the payload has left.
bool TcpLink::advance_bulk() {
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
