#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kDirectReadBytes = 4096;  // shorter remainders go through the buffer
constexpr std::chrono::seconds kTroubleAfter(1);
constexpr unsigned kIgnoredReports = 3;  // several threads may wait, and one of them may be about to look
constexpr int kHidden = 0x4000;          // in packed interest, beside the events of poll(2)
static_assert((kHidden & (POLLIN | POLLOUT)) == 0);

constexpr std::size_t kGathered = 32;  // frames in one system call: Asio takes 64 pieces of memory at most

using Parts = std::array<asio::const_buffer, 2>;

/// What is left of a frame's header and of its payload.
Parts unsent(const Outgoing& frame) {
  const std::uint64_t header_left = kFrameHeaderBytes - std::min<std::uint64_t>(frame.written_, kFrameHeaderBytes);
  const std::uint64_t payload_done = frame.written_ - (kFrameHeaderBytes - header_left);
  return {
      asio::buffer(frame.encoded_.data() + kFrameHeaderBytes - header_left, header_left),
      asio::buffer(static_cast<const std::byte*>(frame.payload) + payload_done, frame.header.nbytes - payload_done)};
}

std::string reason_of(const asio::error_code& error) {
  return error == asio::error::eof ? "its process closed the connection" : error.message();
}

}  // namespace

TcpLink::TcpLink(int peer, std::function<std::unique_ptr<Dialer>()> connect, std::function<std::string()> describe)
    : peer_(peer), connect_(std::move(connect)), describe_(std::move(describe)) {}

void TcpLink::lost(const std::string& why) {
  if (!end_of_stream_) end_stream(why);
  throw Error(end_code_, "lost " + describe_() + ": " + end_reason_);
}

bool TcpLink::adopt(ByteStream socket) {
  std::lock_guard lock(handover_mutex_);
  if (std::exchange(adopted_, true)) return false;
  if (shut_down_.load(std::memory_order_acquire)) return true;  // the socket ends here, and the peer sees it
  handed_over_ = std::move(socket);
  has_handed_over_.store(true, std::memory_order_release);
  return true;
}

void TcpLink::shutdown() {
  shut_down_.store(true, std::memory_order_release);
  std::lock_guard lock(handover_mutex_);
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
  handed_over_.reset();
}

bool TcpLink::open() {
  if (socket_) return true;
  if (shut_down_.load(std::memory_order_acquire)) lost("");
  if (end_of_stream_) lost(end_reason_);
  looked();
  if (connect_ ? !advance_connect() : !has_handed_over()) return false;
  std::lock_guard lock(handover_mutex_);
  wanted_since_.reset();
  if (connect_) {
    socket_ = dialer_->take();
    dialer_.reset();
  } else {
    socket_ = std::exchange(handed_over_, std::nullopt);
    if (!socket_) return false;
  }
  fd_ = socket_->native_handle();
  if (shut_down_.load(std::memory_order_acquire)) ::shutdown(fd_, SHUT_RDWR);
  update_interest();
  return true;
}

bool TcpLink::has_handed_over() {
  if (has_handed_over_.load(std::memory_order_acquire)) return true;
  if (!std::exchange(waits_for_peer_, true)) {
    std::lock_guard lock(handover_mutex_);
    wanted_since_ = std::chrono::steady_clock::now();
  }
  return false;
}

std::string TcpLink::trouble() const {
  std::lock_guard lock(handover_mutex_);
  if (!wanted_since_) return {};
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - *wanted_since_;
  if (passed < kTroubleAfter) return {};
  if (dialer_) return "connecting " + dialer_->status();
  char text[64];
  std::snprintf(text, sizeof text, "no connection from it for %.1f s", passed.count());
  return text;
}

bool TcpLink::advance_connect() {
  try {
    if (!dialer_) {
      auto connecting = connect_();
      std::lock_guard lock(handover_mutex_);
      dialer_ = std::move(connecting);
      wanted_since_ = std::chrono::steady_clock::now();
    }
    const bool done = dialer_->advance();
    {
      std::lock_guard lock(handover_mutex_);
      fd_ = dialer_->native_handle();
    }
    update_interest();
    return done;
  } catch (const Error& error) {
    {
      std::lock_guard lock(handover_mutex_);
      fd_ = -1;
      dialer_.reset();
      wanted_since_.reset();
    }
    end_stream(error.what());
    if (error.code() == ErrorCode::PeerLost) lost(end_reason_);
    throw Error(error.code(), describe_() + ": " + error.what());
  }
}

void TcpLink::post(Outgoing& frame) {
  queue(frame);
  if (queue_.size() == 1) flush();
}

void TcpLink::queue(Outgoing& frame) {
  frame.encoded_ = encode(frame.header);
  frame.written_ = 0;
  queue_.push_back(&frame);
}

bool TcpLink::flush() {
  if (queue_.empty()) return true;
  if (!open()) return false;
  while (!queue_.empty()) {
    asio::error_code error;
    for (std::size_t left = write(error); left > 0;) {
      Outgoing& frame = *queue_.front();
      const std::uint64_t taken =
          std::min<std::uint64_t>(left, kFrameHeaderBytes + frame.header.nbytes - frame.written_);
      frame.written_ += taken;
      left -= taken;
      if (frame.done()) queue_.pop_front();
    }
    if (error == asio::error::would_block) {
      update_interest();
      return false;
    }
    if (error)  // what has come from the peer can still be read, so this is not the end of the stream
      throw Error(ErrorCode::PeerLost, "lost " + describe_() + ": " + reason_of(error));
  }
  update_interest();
  return true;
}

std::size_t TcpLink::write(asio::error_code& error) {
  const Parts first = unsent(*queue_.front());
  if (queue_.size() == 1) return socket_->write_some(first, error);
  std::vector<asio::const_buffer> parts;
  parts.reserve(2 * kGathered);
  for (std::size_t i = 0; i < std::min(queue_.size(), kGathered); ++i)
    for (const asio::const_buffer& part : unsent(*queue_[i])) parts.push_back(part);
  return socket_->write_some(parts, error);
}

void TcpLink::fill() {
  if (end_of_stream_) return;
  looked();
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0 && buffer_.size() - end_ < kFrameHeaderBytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  asio::error_code error;
  end_ += socket_->read_some(asio::buffer(buffer_.data() + end_, buffer_.size() - end_), error);
  if (error && error != asio::error::would_block) end_stream(error);
  if (socket_->is_encrypted()) update_interest();
}

const FrameHeader* TcpLink::peek() {
  if (current_) return &*current_;
  if (!open()) return nullptr;
  if (buffered() < kFrameHeaderBytes) fill();
  if (buffered() < kFrameHeaderBytes) {
    if (end_of_stream_) lost(end_reason_);
    return nullptr;
  }
  try {
    current_ = decode_frame(std::span<const std::byte, kFrameHeaderBytes>(buffer_.data() + begin_, kFrameHeaderBytes));
  } catch (const Error& error) {
    throw Error(error.code(), "from " + describe_() + ": " + error.what());
  }
  begin_ += kFrameHeaderBytes;
  payload_left_ = current_->nbytes;
  return &*current_;
}

std::size_t TcpLink::read(void* into, std::size_t nbytes) {
  auto* target = static_cast<std::byte*>(into);
  std::size_t wanted = std::min<std::uint64_t>(nbytes, payload_left_);
  std::size_t got = std::min(wanted, buffered());
  if (got > 0) std::memcpy(target, buffer_.data() + begin_, got);
  begin_ += got;
  wanted -= got;
  if (wanted > 0 && !end_of_stream_) {
    if (wanted >= kDirectReadBytes) {
      looked();
      begin_ = end_ = 0;  // the buffer is empty here: all of it was wanted
      const std::array<asio::mutable_buffer, 2> parts{asio::buffer(target + got, wanted), asio::buffer(buffer_)};
      asio::error_code error;
      const std::size_t came = socket_->read_some(parts, error);
      if (error && error != asio::error::would_block) end_stream(error);
      if (socket_->is_encrypted()) update_interest();
      end_ = came > wanted ? came - wanted : 0;
      got += std::min(came, wanted);
    } else {
      fill();
      const std::size_t more = std::min(wanted, buffered());
      if (more > 0) std::memcpy(target + got, buffer_.data() + begin_, more);
      begin_ += more;
      got += more;
    }
  }
  payload_left_ -= got;
  if (payload_left_ == 0) current_.reset();
  if (got == 0 && current_ && nbytes > 0 && end_of_stream_) lost(end_reason_);
  return got;
}

void TcpLink::end_stream(const std::string& reason) {
  end_of_stream_ = true;
  end_reason_ = shut_down_.load(std::memory_order_acquire) ? "this rank has closed its connections" : reason;
  update_interest();
}

void TcpLink::end_stream(const asio::error_code& error) {
  if (error.category() == tls_category()) end_code_ = ErrorCode::Protocol;
  end_stream(reason_of(error));
}

TcpLink::Interest TcpLink::interest() const {
  const std::int64_t packed = interest_.load(std::memory_order_relaxed);
  Interest interest{static_cast<int>(packed >> 16), static_cast<short>(packed & 0xffff & ~kHidden),
                    (packed & kHidden) != 0};
  if (ignored_reports_.load(std::memory_order_relaxed) >= kIgnoredReports) {
    interest.events = static_cast<short>(interest.events & ~POLLIN);
    interest.hidden = false;
  }
  if (interest.events == 0) interest.fd = -1;  // poll() would still report a connection that has broken
  return interest;
}

void TcpLink::update_interest() {
  int fd = -1;
  int events = POLLIN;
  if (socket_) {
    if (!end_of_stream_) fd = fd_;
    if (!queue_.empty()) events |= POLLOUT;
    if (socket_->has_hidden() && !end_of_stream_) events |= kHidden;
  } else if (dialer_) {
    fd = dialer_->native_handle();
    if (dialer_->wants_to_write()) events = POLLOUT;
  }
  interest_.store(static_cast<std::int64_t>(fd) * 0x10000 + events, std::memory_order_relaxed);
}

}  // namespace tutti::comm
