// How a TcpLink gets its connection: it dials, or the listener hands one over.
//
// Where either side may dial and both do at once, the peer's waits at our listener, without a verdict, until ours is
// open; or, if the peer comes first, the peer's is let in, and this side closes its own and dials no more.
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_link.h>

#include <utility>

namespace tutti::comm {
namespace {

constexpr std::chrono::seconds kTroubleAfter(1);

}  // namespace

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

}  // namespace tutti::comm
