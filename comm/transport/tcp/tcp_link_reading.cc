// How a TcpLink reads: headers through its buffer, long payloads straight to their place.
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <cstring>
#include <span>

namespace tutti::comm {
namespace {

constexpr std::size_t kDirectReadBytes = 4096;  // shorter remainders go through the buffer

}  // namespace

template <typename Parts>
std::size_t TcpLink::receive(const Parts& parts) {
  looked();
  asio::error_code error;
  const std::size_t came = socket_->read_some(parts, error);
  if (error && error != asio::error::would_block) end_stream(error);
  if (came > 0 && came < asio::buffer_size(parts)) runs_ahead_.note_received();
  if (socket_->is_encrypted()) update_interest();
  if (acknowledges_) acknowledge(came > 0);
  return came;
}

void TcpLink::acknowledge(bool more_came) {
  unacknowledged_ |= more_came || socket_->is_encrypted();  // a part of a record, maybe
  if (!unacknowledged_ || (more_came && is_near_)) return;
  acknowledge_now(fd_, /*later_ones_too=*/!is_near_);
  unacknowledged_ = false;
}

void TcpLink::fill() {
  if (end_of_stream_) return;
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0 && buffer_->size() - end_ < kFrameHeaderBytes) {
    std::memmove(buffer_->data(), buffer_->data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  end_ += receive(asio::buffer(buffer_->data() + end_, buffer_->size() - end_));
}

const FrameHeader* TcpLink::peek() {
  if (!current_) {
    if (!open() || !find_header()) return nullptr;
    take_header();
    if (reads_bulk()) channel().expect(current_->bulk_tag, current_->nbytes);
  }
  return &*current_;
}

void TcpLink::take_header() {
  const auto header = std::span<const std::byte, kFrameHeaderBytes>(buffer_->data() + begin_, kFrameHeaderBytes);
  try {
    current_ = decode_frame(header);
  } catch (const Error& error) {
    throw Error(error.code(), "from " + describe_() + ": " + error.what());
  }
  if (current_->acknowledge && !acknowledges_) acknowledge(/*more_came=*/true);
  acknowledges_ = current_->acknowledge;
  begin_ += kFrameHeaderBytes;
  payload_left_ = current_->nbytes;
}

bool TcpLink::find_header() {
  if (buffered() < kFrameHeaderBytes) fill();
  if (buffered() >= kFrameHeaderBytes) return true;
  if (end_of_stream_) lost(end_reason_);
  return false;
}

std::size_t TcpLink::read(void* into, std::size_t nbytes) {
  if (reads_bulk()) return read_bulk(into, nbytes);
  auto* target = static_cast<std::byte*>(into);
  const std::size_t wanted = std::min<std::uint64_t>(nbytes, payload_left_);
  std::size_t got = 0;
  const auto take_buffered = [&] {
    const std::size_t more = std::min(wanted - got, buffered());
    if (more > 0) std::memcpy(target + got, buffer_->data() + begin_, more);
    begin_ += more;
    got += more;
  };
  take_buffered();
  if (got < wanted && !end_of_stream_) {
    if (wanted - got >= kDirectReadBytes) {
      begin_ = end_ = 0;  // the buffer is empty here: all of it was read
      const std::size_t left = wanted - got;
      const std::size_t came = receive(std::array<asio::mutable_buffer, 2>{
          asio::buffer(target + got, left), asio::buffer(buffer_->data(), kReadAheadBytes)});
      end_ = came > left ? came - left : 0;
      got += std::min(came, left);
    } else {
      fill();
      take_buffered();
    }
  }
  payload_left_ -= got;
  if (payload_left_ == 0) current_.reset();
  if (got == 0 && current_ && nbytes > 0 && end_of_stream_) lost(end_reason_);
  return got;
}

}  // namespace tutti::comm
