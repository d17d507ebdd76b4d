#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/transport/tcp/tcp_transport.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

namespace tutti::comm {

TcpListenerOptions listener_options(const TcpTransportOptions& options) {
  return {.addresses = {options.bind_address},
          .job_id = options.job_id,
          .job_secret = options.job_secret,
          .encrypt = options.encrypt,
          .handshake_limit = options.handshake_limit,
          .group_limit = options.group_limit};
}

TcpTransport::TcpTransport(const TcpTransportOptions& options, std::shared_ptr<TcpListener> listener)
    : options_(options),
      listener_(listener ? std::move(listener) : std::make_shared<TcpListener>(listener_options(options))) {
  for (int peer = 0; peer < options_.world_size; ++peer) {
    BulkUse bulk{.open = {}, .from = options_.bulk_from};
    if (has_bulk())
      bulk.open = [this, peer] {
        return options_.bulk->open(peers_.at(static_cast<std::size_t>(peer)).bulk, [this] { wake(); });
      };
    const auto named = [this, peer] { return describe(peer); };
    const auto opener = options_.rank > peer ? TcpLink::Opener::This : TcpLink::Opener::Peer;
    collective_.emplace_back(peer, opener, connector(peer, ConnectionKind::Collective), named, collectives_run_ahead_,
                             bulk);
    for (const auto kind : {ConnectionKind::Messages, ConnectionKind::Answers})
      links(kind).emplace_back(peer, TcpLink::Opener::Either, connector(peer, kind), named, messages_run_ahead_, bulk);
  }
  listener_->join({.self = identity(ConnectionKind::Collective),
                   .admit = [this](const PeerIdentity& peer) { return admit(peer); },
                   .adopt = [this](const PeerIdentity& peer, ByteStream socket) { adopt(peer, std::move(socket)); },
                   .wake = [this] { wake(); }});
}

TcpTransport::~TcpTransport() { close(); }

bool TcpTransport::service() {
  if (has_bulk()) options_.bulk->progress();
  return listener_->service();
}

void TcpTransport::set_peers(std::vector<PeerAddress> peers) {
  peers_ = std::move(peers);
  peers_known_ = true;
}

std::vector<int> TcpTransport::hosts() const {
  std::map<std::string, int> number_of;
  std::vector<int> result;
  for (const PeerAddress& peer : peers_) {
    result.push_back(number_of.try_emplace(peer.host, static_cast<int>(number_of.size())).first->second);
  }
  return result;
}

PeerIdentity TcpTransport::identity(ConnectionKind kind) const {
  return {.kind = kind,
          .rank = options_.rank,
          .world_size = options_.world_size,
          .pid = static_cast<std::uint32_t>(::getpid()),
          .job = identity_hash(options_.job_id),
          .group = identity_hash(options_.group)};
}

std::function<std::unique_ptr<Dialer>()> TcpTransport::connector(int peer, ConnectionKind kind) {
  return [this, peer, kind] {
    PeerIdentity self = identity(kind);
    self.wants = peer;
    const auto open = [this, self](const asio::ip::tcp::endpoint& endpoint) {
      return std::make_unique<HandshakingSocket>(listener_->context(), endpoint, self, options_.job_secret,
                                                 listener_->tls());
    };
    return std::make_unique<Dialer>(
        Dialer::Options{.endpoints = endpoints_of(peers_.at(static_cast<std::size_t>(peer))),
                        .open = open,
                        .reached = [this, peer](const std::string& endpoint) { note_reached(peer, endpoint); },
                        .from = "rank " + std::to_string(options_.rank),
                        .to = name_of(peer)});
  };
}

/// The endpoint that has worked comes first.
std::vector<std::string> TcpTransport::endpoints_of(const PeerAddress& peer) {
  std::vector<std::string> endpoints{peer.endpoint};
  endpoints.insert(endpoints.end(), peer.others.begin(), peer.others.end());
  const auto known = std::ranges::find(endpoints, peer.others.empty() ? "" : listener_->reached(peer.endpoint));
  if (known != endpoints.end()) std::rotate(endpoints.begin(), known, known + 1);
  return endpoints;
}

void TcpTransport::note_reached(int peer, const std::string& endpoint) {
  const PeerAddress& address = peers_[static_cast<std::size_t>(peer)];
  if (address.others.empty() || !listener_->reached(address.endpoint).empty()) return;
  listener_->remember(address.endpoint, endpoint);
  if (endpoint != address.endpoint)
    log(LogLevel::Info, "rank ", options_.rank, " reached ", name_of(peer), " at ", endpoint,
        " first, and keeps to that");
}

std::deque<TcpLink>& TcpTransport::links(ConnectionKind kind) {
  return kind == ConnectionKind::Messages ? messages_ : kind == ConnectionKind::Answers ? answers_ : collective_;
}

/// Why a connection of a peer that has proved the secret is refused; "" if it is not.
std::string TcpTransport::objection(const PeerIdentity& peer) const {
  if (peer.rank < 0 || peer.rank >= options_.world_size || peer.rank == options_.rank ||
      (peer.kind == ConnectionKind::Collective && peer.rank < options_.rank))
    return "rank " + std::to_string(options_.rank) + " expects none from it";
  if (!peers_known_) return {};
  const std::string& pid = peers_[static_cast<std::size_t>(peer.rank)].pid;
  if (pid.empty() || pid == std::to_string(peer.pid)) return {};
  return "its process is " + std::to_string(peer.pid) + ", but " + name_of(peer.rank) + " is another";
}

bool TcpTransport::admit(const PeerIdentity& peer) {
  if (!objection(peer).empty()) return true;  // see adopt()
  return links(peer.kind)[static_cast<std::size_t>(peer.rank)].admit(/*peer_comes_first=*/peer.rank > options_.rank);
}

void TcpTransport::adopt(const PeerIdentity& peer, ByteStream socket) {
  if (const std::string why = objection(peer); !why.empty()) {
    log(LogLevel::Warn, "closed a connection that claims to be rank ", peer.rank, " of ", options_.world_size, ": ",
        why);
    return;
  }
  if (!links(peer.kind)[static_cast<std::size_t>(peer.rank)].adopt(std::move(socket))) {
    log(LogLevel::Warn, "closed a second connection that claims to be rank " + std::to_string(peer.rank));
    return;
  }
  wake();  // the thread that uses the link may sleep
}

void TcpTransport::wait(std::span<Link* const> links, std::chrono::milliseconds timeout) {
  wait_also(links, {}, timeout);
}

void TcpTransport::wait_also(std::span<Link* const> links, std::span<pollfd> more, std::chrono::milliseconds timeout) {
  ++sleepers_;
  std::vector<pollfd> polled{{doorbell_.descriptor(), POLLIN, 0}};
  for (int fd : listener_->descriptors()) polled.push_back({fd, POLLIN, 0});
  const std::size_t first_link = polled.size();
  for (Link* link : links) {
    const auto interest = static_cast<TcpLink*>(link)->interest();
    polled.push_back({interest.fd, interest.events, 0});  // -1 is passed over
    if (interest.hidden) {
      static_cast<TcpLink*>(link)->reported_readable();
      timeout = std::chrono::milliseconds(0);
    }
  }
  if (has_bulk()) polled.push_back({options_.bulk->prepare_to_sleep(timeout), POLLIN, 0});
  polled.insert(polled.end(), more.begin(), more.end());
  const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));
  const bool others_sleep = --sleepers_ > 0;
  if (ready < 0 && errno != EINTR) throw_errno("poll", errno);
  if (has_bulk()) {
    if (polled[polled.size() - more.size() - 1].revents != 0) options_.bulk->was_readable();
    options_.bulk->progress();
  }
  if (ready <= 0) {
    service();  // handshakes have time limits of their own
    return;
  }
  if (polled[0].revents != 0) {
    doorbell_.silence();
    if (others_sleep) doorbell_.ring();
  }
  for (std::size_t i = 0; i < links.size(); ++i)
    if ((polled[first_link + i].revents & POLLIN) != 0) static_cast<TcpLink*>(links[i])->reported_readable();
  std::copy(polled.end() - static_cast<std::ptrdiff_t>(more.size()), polled.end(), more.begin());
  for (std::size_t i = 1; i < first_link; ++i)
    if (polled[i].revents != 0) {
      service();
      return;
    }
}

void TcpTransport::close() {
  if (!left_.exchange(true)) listener_->leave(identity_hash(options_.group));
  for (auto* links : {&collective_, &messages_, &answers_})
    for (TcpLink& link : *links) link.shutdown();
  wake();
}

std::string TcpTransport::trouble(int peer) const {
  std::string text = collective_[static_cast<std::size_t>(peer)].trouble();
  return text.empty() ? messages_[static_cast<std::size_t>(peer)].trouble() : text;
}

std::string TcpTransport::describe(int peer) const {
  const std::string text = trouble(peer);
  return name_of(peer) + (text.empty() ? "" : " [" + text + "]");
}

std::string TcpTransport::name_of(int peer) const {
  const std::string text = "rank " + std::to_string(peer);
  if (static_cast<std::size_t>(peer) >= peers_.size()) return text;
  const PeerAddress& address = peers_[static_cast<std::size_t>(peer)];
  const std::string in_world =
      address.world_rank < 0 ? "" : "rank " + std::to_string(address.world_rank) + " of the world; ";
  return text + " (" + in_world + address.host + ", pid " + address.pid + ", " + address.endpoint + ")";
}

}  // namespace tutti::comm
