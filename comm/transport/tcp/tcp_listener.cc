#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_listener.h>

#include <algorithm>

namespace tutti::comm {
namespace {

constexpr std::size_t kUnfinishedLimit = 256;  // more wait in the kernel's queue
// How long a connection may take for its handshake once there is no room for others.
constexpr std::chrono::milliseconds kPatienceWithoutRoom(500);
constexpr std::size_t kWaitingLimit = 4096;  // connections with the secret whose group is not there yet
constexpr std::size_t kLeftKept = 4096;
constexpr std::chrono::milliseconds kAcceptRetry(1000);

asio::ip::tcp::acceptor listen(asio::io_context& context, const std::string& address) {
  asio::error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) refuse("bind address '", address, "' is not a numeric IP address");
  const asio::ip::tcp::endpoint endpoint(ip, 0);
  asio::ip::tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor.non_blocking(true, error);
  if (error) throw Error(ErrorCode::System, "cannot listen on " + address + ": " + error.message());
  ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  return acceptor;
}

std::vector<asio::ip::tcp::acceptor> listen(asio::io_context& context, const std::vector<std::string>& addresses) {
  std::vector<asio::ip::tcp::acceptor> acceptors;
  for (const std::string& address : addresses) {
    try {
      acceptors.push_back(listen(context, address));
    } catch (const Error& error) {
      if (acceptors.empty()) throw;
      log(LogLevel::Warn, std::string(error.what()) + "; others reach this rank at its other addresses only");
    }
  }
  return acceptors;
}

std::vector<std::string> local_endpoints(const std::vector<asio::ip::tcp::acceptor>& acceptors) {
  std::vector<std::string> endpoints;
  asio::error_code ignored;
  for (const auto& acceptor : acceptors) endpoints.push_back(to_string(acceptor.local_endpoint(ignored)));
  return endpoints;
}

}  // namespace

TcpListener::TcpListener(TcpListenerOptions options)
    : options_(std::move(options)),
      job_(identity_hash(options_.job_id)),
      acceptors_(listen(context_, options_.addresses)),
      endpoints_(local_endpoints(acceptors_)) {
  if (options_.encrypt) tls_.emplace(options_.job_secret, options_.job_id);
}

void TcpListener::remember(const std::string& first, const std::string& reached) {
  const std::lock_guard lock(mutex_);
  reached_[first] = reached;
}

std::string TcpListener::reached(const std::string& first) {
  const std::lock_guard lock(mutex_);
  return reached_[first];
}

void TcpListener::join(Member member) {
  const std::uint64_t group = member.self.group;
  std::lock_guard lock(mutex_);
  std::erase(left_, group);
  if (!members_.try_emplace(group, std::move(member)).second)
    refuse("this process has two groups with the hash ", hex(group), " at one port: give each group a name of its own");
}

void TcpListener::leave(std::uint64_t group) {
  std::lock_guard lock(mutex_);
  if (members_.erase(group) == 0) return;
  left_.push_back(group);
  if (left_.size() > kLeftKept) left_.pop_front();
  if (members_.empty()) close();
}

bool TcpListener::service() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const std::size_t before = inbound_.size();
  if (!can_accept()) show_out_the_silent();
  for (auto& acceptor : acceptors_) accept_all(acceptor);
  const bool has_new = inbound_.size() > before;
  bool handed_over = false;
  inbound_.remove_if([&](HandshakingSocket& inbound) { return is_over(inbound, handed_over); });
  // A thread that sleeps in another group's wait() does not poll the new ones, and this thread may not come back.
  if (has_new && members_.size() > 1)
    for (const auto& [group, member] : members_) member.wake();
  return handed_over;
}

bool TcpListener::can_accept() const {
  const auto waiting = static_cast<std::size_t>(std::ranges::count_if(inbound_, &HandshakingSocket::awaits_group));
  return acceptors_.front().is_open() && inbound_.size() - waiting < kUnfinishedLimit && waiting < kWaitingLimit &&
         std::chrono::steady_clock::now() >= accept_again_;
}

/// Closes connections that have not authenticated in time, if they take the last room.
void TcpListener::show_out_the_silent() {
  const auto now = std::chrono::steady_clock::now();
  if (now < accept_again_) return;
  std::size_t closed = 0;
  std::string oldest;
  inbound_.remove_if([&](HandshakingSocket& inbound) {
    if (inbound.awaits_group() || now - inbound.started() < kPatienceWithoutRoom) return false;
    if (++closed == 1) oldest = inbound.remote();
    return true;
  });
  if (closed > 0)
    strangers_.tell("full; closed " + std::to_string(closed) +
                    " connections that had not finished the handshake, the oldest from " + oldest);
}

void TcpListener::accept_all(asio::ip::tcp::acceptor& acceptor) {
  while (can_accept()) {
    pollfd waiting{acceptor.native_handle(), POLLIN, 0};
    if (::poll(&waiting, 1, 0) == 0) return;  // accept() would make a socket first, and then close it
    asio::error_code error;
    asio::ip::tcp::socket socket = acceptor.accept(error);
    if (error == asio::error::would_block) return;
    if (error == asio::error::connection_aborted) continue;
    if (error) {
      // Out of descriptors or memory: connections go on, new ones wait in the kernel's backlog.
      log(LogLevel::Error, "cannot accept a connection just now: " + error.message());
      accept_again_ = std::chrono::steady_clock::now() + kAcceptRetry;
      return;
    }
    inbound_.emplace_back(
        std::move(socket),
        HandshakingSocket::Host{
            .expect = [this](const PeerIdentity& peer) { return expectation(peer); },
            .admit = [this](const PeerIdentity& peer) { return members_.at(peer.group).admit(peer); }},
        options_.job_secret, tls());
  }
}

std::optional<PeerIdentity> TcpListener::expectation(const PeerIdentity& peer) const {
  if (const auto member = members_.find(peer.group); member != members_.end()) return member->second.self;
  // Whatever group it names, a store's client or another job's process is in the wrong place.
  if (peer.kind == ConnectionKind::Store || peer.job != job_)
    return PeerIdentity{.kind = ConnectionKind::Collective, .job = job_};
  if (std::ranges::find(left_, peer.group) != left_.end())
    throw Error(ErrorCode::PeerLost, "its group " + hex(peer.group) + " is over here");
  return std::nullopt;
}

/// Advances a connection. True if it has been handed over, or is dropped.
bool TcpListener::is_over(HandshakingSocket& inbound, bool& handed_over) {
  try {
    if (inbound.advance()) {
      const auto member = members_.find(inbound.peer().group);
      if (member == members_.end()) return true;  // it has left while the verdict was on its way
      member->second.adopt(inbound.peer(), inbound.take());
      handed_over = true;
      return true;
    }
    if (!is_late(inbound)) return false;
    strangers_.tell("dropped a connection from " + inbound.remote() + ": no complete handshake within " +
                    std::to_string(options_.handshake_limit.count()) + " ms");
  } catch (const Error& error) {
    // A connection that closes without a word is a prober's, or of a rank of ours that has ended or got in by another
    // address; so is one that closes while it waits for a group, and one that comes too late.
    const bool silent = error.code() == ErrorCode::PeerLost && (inbound.is_silent() || inbound.awaits_group());
    const std::string line = "refused a connection from " + inbound.remote() + ": " + error.what();
    if (silent) {
      log(LogLevel::Info, line);
    } else {
      strangers_.tell(line);
    }
  }
  return true;
}

bool TcpListener::is_late(HandshakingSocket& inbound) {
  const auto age = std::chrono::steady_clock::now() - inbound.started();
  if (!inbound.awaits_group()) return age >= options_.handshake_limit;
  if (age >= options_.group_limit) {
    const PeerIdentity& peer = inbound.peer();
    const std::string who = "rank " + std::to_string(peer.rank);
    const std::string within = " within " + std::to_string(options_.group_limit.count()) + " ms";
    inbound.refuse(members_.contains(peer.group)
                       ? "this rank, which opens such a connection itself, could not reach " + who + within
                       : "group " + hex(peer.group) + " of " + who + " was not formed here" + within +
                             " (hashes of the group names): do all its ranks form it?");
    inbound.advance();  // throws the refusal
  }
  return false;
}

std::vector<int> TcpListener::descriptors() {
  std::lock_guard lock(mutex_);
  std::vector<int> descriptors;
  if (can_accept())
    for (auto& acceptor : acceptors_) descriptors.push_back(acceptor.native_handle());
  for (HandshakingSocket& inbound : inbound_)
    if (!inbound.awaits_group()) descriptors.push_back(inbound.native_handle());
  return descriptors;
}

void TcpListener::close() {
  if (!acceptors_.front().is_open()) return;
  for (auto& acceptor : acceptors_) {
    ::shutdown(acceptor.native_handle(), SHUT_RDWR);  // at once, even while a thread polls this descriptor
    asio::error_code ignored;
    acceptor.close(ignored);
  }
  inbound_.clear();
}

}  // namespace tutti::comm
