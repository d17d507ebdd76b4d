#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <span>
#include <utility>

namespace tutti::comm {
namespace {

constexpr unsigned kIgnoredReports = 3;  // several threads may wait, and one of them may be about to read
constexpr int kHidden = 0x4000;          // in packed interest, beside the events of poll(2)
static_assert((kHidden & (POLLIN | POLLOUT)) == 0);

constexpr std::size_t kGathered = 32;         // frames in one system call: Asio takes 64 pieces of memory at most
constexpr std::size_t kOnePieceBytes = 2048;  // copying together is faster than sending several parts

// A connection buffers more than caches hold before its peer reads. If both ends send that much and read then, it comes
// back from memory; so a long queue leaves in turns, between which its owner reads.
constexpr std::size_t kTurnBytes = 1 << 20;

constexpr std::chrono::seconds kTroubleAfter(1);

using Parts = std::array<asio::const_buffer, 2>;

/// What is left of a frame's header and of its payload.
Parts unsent_parts(const Outgoing& frame) {
  const std::uint64_t header_done = std::min<std::uint64_t>(frame.written_, kFrameHeaderBytes);
  const std::uint64_t payload_done = frame.written_ - header_done;
  return {asio::buffer(frame.encoded_.data() + header_done, kFrameHeaderBytes - header_done),
          asio::buffer(static_cast<const std::byte*>(frame.payload) + payload_done,
                       frame.header.bulk_tag != 0 ? 0 : frame.header.nbytes - payload_done)};
}

std::string reason_of(const asio::error_code& error) {
  return error == asio::error::eof ? "its process closed the connection" : error.message();
}

}  // namespace

TcpLink::TcpLink(int peer, Opener opener, std::function<std::unique_ptr<Dialer>()> connect,
                 std::function<std::string()> describe, RunsAhead& runs_ahead, BulkUse bulk)
    : peer_(peer),
      opener_(opener),
      connect_(std::move(connect)),
      describe_(std::move(describe)),
      bulk_(std::move(bulk)),
      runs_ahead_(runs_ahead) {}

// Where either side may dial and both do at once, the peer's waits at our listener, without a verdict, until ours is
// open; or, if the peer comes first, the peer's is let in, and this side closes its own and dials no more.

bool TcpLink::admit(bool peer_comes_first) {
  std::lock_guard lock(handover_mutex_);
  if (opener_ != Opener::Either) return true;
  const bool is_taken = chosen_ == Chosen::This || (chosen_ == Chosen::ThisTries && !peer_comes_first);
  if (!is_taken) chosen_ = Chosen::Peer;
  return !is_taken;
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
  const bool dials = is_dialling();
  if (dials ? !advance_connect() : !has_handed_over()) return false;
  std::lock_guard lock(handover_mutex_);
  wanted_since_.reset();
  if (dials) {
    chosen_ = Chosen::This;
    socket_ = dialer_->take();
    dialer_.reset();
  } else {
    socket_ = std::exchange(handed_over_, std::nullopt);
    if (!socket_) return false;
  }
  buffer_ = std::make_unique<ReadBuffer>();
  fd_ = socket_->native_handle();
  is_near_ = stays_on_this_host(socket_->socket());
  sharing_ = PacketSharing(packet_bytes(fd_));
  if (shut_down_.load(std::memory_order_acquire)) ::shutdown(fd_, SHUT_RDWR);
  update_interest();
  return true;
}

/// Whether this side opens the connection. It does not where the peer has been let in, and gives up its own.
bool TcpLink::is_dialling() {
  if (opener_ != Opener::Either) return opener_ == Opener::This;
  if (queue_.empty() && !dialer_) return false;  // without a lock: a receiving rank polls all links
  std::lock_guard lock(handover_mutex_);
  if (chosen_ == Chosen::Nobody && !queue_.empty()) chosen_ = Chosen::ThisTries;
  if (chosen_ == Chosen::Peer && dialer_) {
    dialer_.reset();
    fd_ = -1;
    update_interest();
  }
  return chosen_ == Chosen::ThisTries;
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
  return format("no connection from it for %.1f s", passed.count());
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

void TcpLink::lost(const std::string& why) {
  if (!end_of_stream_) end_stream(why);
  throw Error(end_code_, "lost " + describe_() + ": " + end_reason_);
}

void TcpLink::post(Outgoing& frame) {
  const bool idle = queue_.empty();
  queue(frame);
  if (idle) flush();
}

void TcpLink::queue(Outgoing& frame) {
  runs_ahead_.note_sent();
  frame.header.acknowledge = sharing_.announces(runs_ahead_, frame.bytes());
  frame.header.bulk_tag = bulk_.open && frame.header.nbytes >= bulk_.from ? channel().tag() : 0;
  if (held_back_ && !sharing_.holds()) set_held_back(false);
  frame.encoded_ = encode(frame.header);
  frame.written_ = 0;
  queue_.push_back(&frame);
}

bool TcpLink::flush() {
  if (queue_.empty()) return true;
  if (!open()) return false;
  if (!held_back_ && sharing_.holds() && queue_.size() == 1) set_held_back(true);  // not what was not announced
  std::size_t room = kTurnBytes;
  while (room > 0 && !queue_.empty()) {
    if (sends_bulk()) {
      if (advance_bulk()) continue;
      update_interest();
      return false;
    }
    asio::error_code error;
    const std::size_t taken = write(room, error);
    room -= std::min(room, taken);  // encrypted bytes are reported late, and may be more
    note_sent(taken);
    if (error == asio::error::would_block) {
      update_interest();
      return false;
    }
    if (error)  // what has come from the peer can still be read, so this is not the end of the stream
      throw Error(ErrorCode::PeerLost, "lost " + describe_() + ": " + reason_of(error));
  }
  update_interest();
  return queue_.empty();
}

void TcpLink::set_held_back(bool held) {
  held_back_ = held;
  hold_back(fd_, held);
}

void TcpLink::note_sent(std::uint64_t bytes) {
  while (bytes > 0) {
    Outgoing& frame = *queue_.front();
    const std::uint64_t of_frame = std::min(bytes, frame.bytes() - frame.written_);
    frame.written_ += of_frame;
    bytes -= of_frame;
    if (frame.done()) queue_.pop_front();
  }
}

std::size_t TcpLink::write(std::size_t at_most, asio::error_code& error) {
  std::array<asio::const_buffer, 2 * kGathered> parts;
  std::size_t count = 0;
  std::size_t left = 0;
  for (std::size_t i = 0; i < std::min(queue_.size(), kGathered); ++i) {
    for (const asio::const_buffer& part : unsent_parts(*queue_[i])) {
      parts[count] = asio::buffer(part, at_most - left);
      left += parts[count++].size();
    }
    if (queue_[i]->header.bulk_tag != 0) break;  // its payload comes before the next header
  }
  const std::span<const asio::const_buffer> gathered(parts.data(), count);
  if (left > kOnePieceBytes) return socket_->write_some(gathered, error);
  std::array<std::byte, kOnePieceBytes> whole;
  asio::buffer_copy(asio::buffer(whole), gathered);
  return socket_->write_some(asio::const_buffer(whole.data(), left), error);
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
  int events = end_of_stream_ ? 0 : POLLIN;
  if (socket_) {
    fd = fd_;
    if (!queue_.empty() && !sends_bulk()) events |= POLLOUT;
    if (socket_->has_hidden() && !end_of_stream_) events |= kHidden;
  } else if (dialer_) {
    fd = dialer_->native_handle();
    if (dialer_->wants_to_write()) events = POLLOUT;
  }
  interest_.store(static_cast<std::int64_t>(fd) * 0x10000 + events, std::memory_order_relaxed);
}

}  // namespace tutti::comm
