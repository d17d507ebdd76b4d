#include <sys/resource.h>
#include <tutti/comm/base/blocked_signals.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/store/store_loop.h>

#include <cerrno>

namespace tutti::comm {
namespace {

using asio::ip::tcp;

constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kAcceptRetry{100};
// How long a connection may take for its handshake once there are no descriptors left for others.
constexpr std::chrono::milliseconds kPatienceWithoutRoom{1000};
constexpr std::size_t kMoreDescriptors = 4096;

}  // namespace

StoreLoop::StoreLoop(StoreLoopOptions options, MakeCodec make_codec)
    : options_(std::move(options)),
      make_codec_(std::move(make_codec)),
      acceptor_(context_),
      accept_retry_(context_),
      strangers_(options_.name + ": ") {
  Socket listener = listen_on(options_.bind_address, options_.port);
  const Endpoint bound = local_endpoint(listener.get());
  port_ = bound.port();
  acceptor_.assign(bound.family() == AF_INET6 ? tcp::v6() : tcp::v4(), listener.get());
  listener.release();
  accept_when_ready();
}

void StoreLoop::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void StoreLoop::start() {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

void StoreLoop::run() {
  while (!context_.stopped()) {
    try {
      context_.run();
      return;
    } catch (const std::exception& error) {  // memory ran out for one request; the others go on
      log(LogLevel::Error, options_.name, " server: ", error.what());
    }
  }
}

void StoreLoop::accept_when_ready() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const asio::error_code& error) {
    if (!error) accept_all();
  });
}

void StoreLoop::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Endpoint peer;
    peer.length = sizeof peer.storage;
    Socket accepted(::accept4(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int error_number = errno;
    if (accepted.get() >= 0) {
      if (!leaves_room(accepted.get()) && !try_raise_descriptor_limit(kMoreDescriptors)) return accept_later(EMFILE);
      try {
        welcome(std::move(accepted), peer);
      } catch (const std::exception& failed) {
        strangers_.tell(std::string("a connection was not taken: ") + failed.what());
      }
    } else if (error_number == EAGAIN || error_number == EWOULDBLOCK) {
      break;
    } else if (error_number != EINTR && error_number != ECONNABORTED && error_number != EPROTO) {
      return accept_later(error_number);
    }
  }
  accept_when_ready();
}

bool StoreLoop::leaves_room(int descriptor) const {
  rlimit limit{};
  return options_.kept_descriptors == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
         static_cast<rlim_t>(descriptor + options_.kept_descriptors) < limit.rlim_cur;
}

/// Out of descriptors or memory: clients go on being served, new connections wait in the backlog, unless there are some
/// to close that have not been admitted.
void StoreLoop::accept_later(int error_number) {
  if (error_number == EMFILE && (try_raise_descriptor_limit(kMoreDescriptors) || close_silent())) return accept_all();
  // Once; it may have to be tried many times.
  log(std::exchange(told_of_refusal_, true) ? LogLevel::Debug : LogLevel::Warn, options_.name,
      ": cannot accept a connection just now: ", errno_text(error_number), "; ",
      connections_.size() - newcomers_.size(), " clients are connected");
  accept_retry_.expires_after(kAcceptRetry);
  accept_retry_.async_wait([this](const asio::error_code& error) {
    if (!error) accept_all();
  });
}

/// Closes connections that have not been admitted for a while. True if there were any.
bool StoreLoop::close_silent() {
  const auto before = Clock::now() - kPatienceWithoutRoom;
  std::vector<std::shared_ptr<StoreConnection>> silent;
  for (const std::uint64_t id : newcomers_) {
    const auto& connection = connections_.at(id);
    if (connection->since() > before) break;
    silent.push_back(connection);
  }
  if (silent.empty()) return false;
  log(LogLevel::Warn, options_.name, ": out of descriptors; closed ", silent.size(),
      " connections that had not finished the handshake, the oldest from ", silent.front()->address());
  for (const auto& connection : silent) connection->close();
  return true;
}

void StoreLoop::welcome(Socket accepted, const Endpoint& peer) {
  told_of_refusal_ = false;
  tune_connection(accepted.get());
  tcp::socket socket(context_);
  asio::error_code error;
  socket.assign(peer.family() == AF_INET6 ? tcp::v6() : tcp::v4(), accepted.get(), error);
  if (error) return;
  accepted.release();
  const std::uint64_t id = next_id_++;
  const auto connection = std::make_shared<StoreConnection>(std::move(socket), id, peer.text(), make_codec_(), *this);
  connections_.emplace(id, connection);
  newcomers_.insert(id);
  connection->start(options_.patience);
}

void StoreLoop::send(std::uint64_t id, std::string message) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) found->second->send(std::move(message));
}

void StoreLoop::left(StoreConnection& connection) {
  newcomers_.erase(connection.id());
  connections_.erase(connection.id());
}

void StoreLoop::close_port() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  accept_retry_.cancel();
  while (!newcomers_.empty()) connections_.at(*newcomers_.begin())->close();
}

}  // namespace tutti::comm
