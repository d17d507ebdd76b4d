#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/store/store_connection.h>
#include <tutti/comm/store/store_service.h>
#include <tutti/comm/store/stranger_log.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/handshake.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

using asio::ip::tcp;
using Clock = StoreService::Clock;

constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kAcceptRetry{100};
// How long a connection may take for its handshake once there are no descriptors left for others.
constexpr std::chrono::milliseconds kPatienceWithoutRoom{1000};
constexpr std::size_t kMoreDescriptors = 4096;
// Descriptors of a server besides its clients': listener, event loop, and what its process opens meanwhile.
constexpr std::size_t kOwnDescriptors = 16;

PeerIdentity server_identity(const TcpStoreServerOptions& options) {
  PeerIdentity identity;
  identity.kind = ConnectionKind::Store;
  identity.world_size = options.world_size;
  identity.pid = static_cast<std::uint32_t>(::getpid());
  identity.job = identity_hash(options.job_id);
  return identity;
}

}  // namespace

class TcpStoreServer::Impl final : public StoreConnectionHost {
 public:
  explicit Impl(const TcpStoreServerOptions& options)
      : options_(options),
        identity_(server_identity(options)),
        acceptor_(loop_),
        accept_retry_(loop_),
        wait_timer_(loop_),
        service_([this](std::uint64_t client, std::string message) { send(client, std::move(message)); }) {
    if (options.world_size > 0) {
      raise_descriptor_limit(static_cast<std::size_t>(options.world_size) + kOwnDescriptors,
                             "a store server for " + std::to_string(options.world_size) + " ranks");
    }
    Socket listener = listen_on(options.bind_address, options.port);
    const Endpoint bound = local_endpoint(listener.get());
    port_ = bound.port();
    acceptor_.assign(bound.family() == AF_INET6 ? tcp::v6() : tcp::v4(), listener.get());
    listener.release();
    accept_when_ready();
    start_thread();
  }

  ~Impl() {
    loop_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

  void rank_ended(int rank, const std::string& text) {
    asio::post(loop_, [this, rank, text] { service_.rank_ended(rank, text); });
  }

  bool wait_until_unused(Deadline deadline) const {
    std::unique_lock lock(mutex_);
    return unused_.wait_until(lock, deadline.time_point(), [this] { return client_count_ == 0; });
  }

  bool close_when_unused(Deadline deadline) {
    std::unique_lock lock(mutex_);
    closes_ = true;
    asio::post(loop_, [this] { count_clients(); });
    return unused_.wait_until(lock, deadline.time_point(), [this] { return !closes_; }) && client_count_ == 0;
  }

 private:
  void start_thread() {
    // Signals belong to the threads of the program, not to this one.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    while (!loop_.stopped()) {
      try {
        loop_.run();
        return;
      } catch (const std::exception& error) {  // memory ran out for one request; the others go on
        log(LogLevel::Error, std::string("store server: ") + error.what());
      }
    }
  }

  void accept_when_ready() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](const asio::error_code& error) {
      if (!error) accept_all();
    });
  }

  void accept_all() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      Endpoint peer;
      peer.length = sizeof peer.storage;
      Socket accepted(::accept4(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted.get() >= 0) {
        welcome(std::move(accepted), peer);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
      return accept_later(errno);
    }
    accept_when_ready();
  }

  /// Out of descriptors or memory: clients go on being served, new connections wait in the backlog, unless there are
  /// unauthenticated ones to close.
  void accept_later(int error_number) {
    const bool no_descriptor = error_number == EMFILE;
    if (no_descriptor && (try_raise_descriptor_limit(kMoreDescriptors) || show_out_the_silent())) return accept_all();
    // Once; it may have to be tried many times.
    log(std::exchange(told_of_refusal_, true) ? LogLevel::Debug : LogLevel::Warn,
        "store: cannot accept a connection just now: " + errno_text(error_number) + "; " +
            std::to_string(service_.client_count()) + " clients are connected");
    accept_retry_.expires_after(kAcceptRetry);
    accept_retry_.async_wait([this](const asio::error_code& error) {
      if (!error) accept_all();
    });
  }

  /// Closes connections that have not authenticated in time; returns whether any were closed.
  bool show_out_the_silent() {
    const auto before = Clock::now() - kPatienceWithoutRoom;
    std::vector<std::shared_ptr<StoreConnection>> silent;
    for (const std::uint64_t id : newcomers_) {
      const auto& connection = connections_.at(id);
      if (connection->since() > before) break;
      silent.push_back(connection);
    }
    if (silent.empty()) return false;
    log(LogLevel::Warn, "store: out of descriptors; closed " + std::to_string(silent.size()) +
                            " connections that had not finished the handshake, the oldest from " +
                            silent.front()->address());
    for (const auto& connection : silent) connection->close();
    return true;
  }

  void welcome(Socket accepted, const Endpoint& peer) {
    told_of_refusal_ = false;
    tune_connection(accepted.get());
    tcp::socket socket(loop_);
    asio::error_code error;
    socket.assign(peer.family() == AF_INET6 ? tcp::v6() : tcp::v4(), accepted.get(), error);
    if (error) return;
    accepted.release();
    const std::uint64_t id = next_id_++;
    const auto connection = std::make_shared<StoreConnection>(std::move(socket), id, peer.text(), *this);
    connections_.emplace(id, connection);
    newcomers_.insert(id);
    connection->start();
  }

  void send(std::uint64_t client, std::string message) {
    const auto found = connections_.find(client);
    if (found != connections_.end()) found->second->send(std::move(message));
  }

  ServerHandshake new_handshake() const override { return {identity_, options_.job_secret}; }
  std::chrono::milliseconds handshake_timeout() const override { return options_.handshake_timeout; }
  StoreService& service() override { return service_; }

  void joined(StoreConnection& connection) override {
    newcomers_.erase(connection.id());
    service_.client_joined(connection.id(), connection.peer(), connection.address());
    count_clients();
  }

  void handled_requests() override { arm_wait_timer(); }

  void left(StoreConnection& connection) override {
    service_.client_left(connection.id());
    connections_.erase(connection.id());
    newcomers_.erase(connection.id());
    count_clients();
  }

  StrangerLog& strangers() override { return strangers_; }

  void count_clients() {
    std::unique_lock lock(mutex_);
    client_count_ = service_.client_count();
    const bool closes = closes_ && client_count_ == 0;
    if (closes || (closes_ && service_.some_are_ahead())) closes_ = false;
    lock.unlock();
    if (closes) close_port();
    unused_.notify_all();
  }

  /// Stops accepting, and closes connections that have not authenticated.
  void close_port() {
    asio::error_code ignored;
    acceptor_.close(ignored);
    accept_retry_.cancel();
    while (!newcomers_.empty()) connections_.at(*newcomers_.begin())->close();
  }

  void arm_wait_timer() {
    const auto next = service_.next_deadline();
    if (!next || (armed_for_ && *armed_for_ <= *next)) return;
    armed_for_ = next;
    wait_timer_.expires_at(*next);
    wait_timer_.async_wait([this](const asio::error_code& error) {
      if (error) return;
      armed_for_.reset();
      service_.expire(Clock::now());
      arm_wait_timer();
    });
  }

  const TcpStoreServerOptions options_;
  const PeerIdentity identity_;
  std::uint16_t port_ = 0;

  // Everything below down to the mutex belongs to the loop's thread.
  asio::io_context loop_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer accept_retry_;
  asio::steady_timer wait_timer_;
  std::optional<Clock::time_point> armed_for_;
  StoreService service_;
  StrangerLog strangers_;
  bool told_of_refusal_ = false;  // since a connection was last accepted
  std::uint64_t next_id_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<StoreConnection>> connections_;
  std::set<std::uint64_t> newcomers_;  // connections that have not proved the secret yet, the oldest first

  mutable std::mutex mutex_;
  mutable std::condition_variable unused_;
  std::size_t client_count_ = 0;
  bool closes_ = false;  // as soon as there is no client, unless one is ahead
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : owner_pid_(::getpid()), impl_(std::make_unique<Impl>(options)) {}

TcpStoreServer::~TcpStoreServer() {
  // A forked child has no such thread to join, and shares the parent's epoll descriptor: it must leave all alone.
  if (::getpid() != owner_pid_) static_cast<void>(impl_.release());
}

std::uint16_t TcpStoreServer::port() const { return impl_->port(); }

void TcpStoreServer::rank_ended(int rank, const std::string& text) { impl_->rank_ended(rank, text); }

bool TcpStoreServer::close_when_unused(Deadline deadline) {
  return ::getpid() != owner_pid_ || impl_->close_when_unused(deadline);
}

bool TcpStoreServer::wait_until_unused(Deadline deadline) const {
  return ::getpid() != owner_pid_ || impl_->wait_until_unused(deadline);
}

}  // namespace tutti::comm
