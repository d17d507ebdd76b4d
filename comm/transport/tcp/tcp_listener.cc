#include <fcntl.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_listener.h>

namespace tutti::comm {
namespace {

constexpr std::size_t kUnfinishedLimit = 256;  // more wait in the kernel's queue
constexpr std::chrono::milliseconds kAcceptRetry(1000);

}  // namespace

TcpListener::TcpListener(asio::io_context& context, const std::string& address, const PeerIdentity& self,
                         std::string job_secret, std::chrono::milliseconds handshake_limit, Adopt adopt)
    : acceptor_(context),
      self_(self),
      job_secret_(std::move(job_secret)),
      handshake_limit_(handshake_limit),
      adopt_(std::move(adopt)) {
  asio::error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) throw Error(ErrorCode::InvalidArgument, "bind address '" + address + "' is not a numeric IP address");
  const asio::ip::tcp::endpoint endpoint(ip, 0);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  if (error) throw Error(ErrorCode::System, "cannot listen on " + address + ": " + error.message());
  ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
}

std::string TcpListener::endpoint() const {
  asio::error_code ignored;
  return to_string(acceptor_.local_endpoint(ignored));
}

bool TcpListener::service() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  accept_all();
  bool handed_over = false;
  inbound_.remove_if([&](HandshakingSocket& inbound) {
    const Outcome outcome = advance(inbound);
    handed_over |= outcome == Outcome::HandedOver;
    return outcome != Outcome::Pending;
  });
  return handed_over;
}

bool TcpListener::can_accept() const {
  return acceptor_.is_open() && inbound_.size() < kUnfinishedLimit && std::chrono::steady_clock::now() >= accept_again_;
}

void TcpListener::accept_all() {
  while (can_accept()) {
    asio::error_code error;
    asio::ip::tcp::socket socket = acceptor_.accept(error);
    if (error == asio::error::would_block) return;
    if (error == asio::error::connection_aborted) continue;
    if (error) {
      // Out of descriptors or memory: whoever is connected goes on, the others wait in the kernel's queue.
      log(LogLevel::Error, "cannot accept a connection just now: " + error.message());
      accept_again_ = std::chrono::steady_clock::now() + kAcceptRetry;
      return;
    }
    inbound_.emplace_back(std::move(socket), self_, job_secret_);
  }
}

TcpListener::Outcome TcpListener::advance(HandshakingSocket& inbound) {
  try {
    if (inbound.advance()) {
      adopt_(inbound.peer(), inbound.take());
      return Outcome::HandedOver;
    }
    if (std::chrono::steady_clock::now() - inbound.started() < handshake_limit_) return Outcome::Pending;
    log(LogLevel::Warn, "dropped a connection from " + inbound.remote() + ": no complete handshake within " +
                            std::to_string(handshake_limit_.count()) + " ms");
  } catch (const Error& error) {
    // Whoever leaves without a word is a prober, or a rank of ours that has ended meanwhile.
    const bool silent = error.code() == ErrorCode::PeerLost && !inbound.heard_of();
    log(silent ? LogLevel::Info : LogLevel::Warn,
        "refused a connection from " + inbound.remote() + ": " + error.what());
  }
  return Outcome::Dropped;
}

std::vector<int> TcpListener::descriptors() {
  std::lock_guard lock(mutex_);
  std::vector<int> descriptors;
  if (can_accept()) descriptors.push_back(acceptor_.native_handle());
  for (HandshakingSocket& inbound : inbound_) descriptors.push_back(inbound.native_handle());
  return descriptors;
}

void TcpListener::close() {
  std::lock_guard lock(mutex_);
  if (!acceptor_.is_open()) return;
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);  // at once, even while a thread polls this descriptor
  asio::error_code ignored;
  acceptor_.close(ignored);
  inbound_.clear();
}

}  // namespace tutti::comm
