// How a TcpLink reads: headers through its buffer, long payloads straight to where they belong.
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <cstring>
#include <span>

namespace tutti::comm {
namespace {

constexpr std::size_t kDirectReadBytes = 4096;  // shorter remainders go through the buffer

}  // namespace

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
  while (find_header()) {
    const auto header = std::span<const std::byte, kFrameHeaderBytes>(buffer_.data() + begin_, kFrameHeaderBytes);
    try {
      current_ = decode_frame(header);
    } catch (const Error& error) {
      throw Error(error.code(), "from " + describe_() + ": " + error.what());
    }
    begin_ += kFrameHeaderBytes;
    payload_left_ = current_->nbytes;
    if (current_->kind != FrameKind::Filler) return &*current_;
    filler_left_ = payload_left_;
    current_.reset();
  }
  return nullptr;
}

bool TcpLink::find_header() {
  if (buffered() < filler_left_ + kFrameHeaderBytes) fill();
  const std::size_t filler = std::min(filler_left_, buffered());
  begin_ += filler;
  filler_left_ -= filler;
  if (filler_left_ == 0 && buffered() >= kFrameHeaderBytes) return true;
  if (end_of_stream_) lost(end_reason_);
  return false;
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

}  // namespace tutti::comm
