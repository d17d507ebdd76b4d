#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/handshake.h>
#include <tutti/comm/bootstrap/printable.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/store/send_buffer.h>
#include <tutti/comm/store/store_service.h>
#include <tutti/comm/store/stranger_log.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <unistd.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

using asio::ip::tcp;
using Clock = StoreService::Clock;

constexpr std::size_t kSmallBuffer = 4096;
// A client that does not take its replies is not listened to until it has.
constexpr std::size_t kUnreadRepliesLimit = 64 * 1024;
constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kAcceptRetry{100};
// How long a connection may take for its handshake once there are no descriptors left for others.
constexpr std::chrono::milliseconds kPatienceWithoutRoom{1000};
constexpr std::size_t kMoreDescriptors = 4096;
// Descriptors of a server besides its clients': listener, event loop, and what its process opens meanwhile.
constexpr std::size_t kOwnDescriptors = 16;

class Connection;

/// What a connection needs of its server.
class Host {
 public:
  virtual ServerHandshake new_handshake() const = 0;
  virtual std::chrono::milliseconds handshake_timeout() const = 0;
  virtual StoreService& service() = 0;
  virtual void joined(Connection& connection) = 0;
  virtual void handled_requests() = 0;
  virtual void left(Connection& connection) = 0;
  virtual StrangerLog& strangers() = 0;

 protected:
  ~Host() = default;
};

/// One client: handshake first, then requests. Lives on the loop's thread; kept alive by the server's list and by its
/// own pending operations.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::uint64_t id, std::string address, Host& host)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        id_(id),
        address_(std::move(address)),
        host_(host),
        handshake_(host.new_handshake()),
        in_(kSmallBuffer) {}

  std::uint64_t id() const { return id_; }
  const std::string& address() const { return address_; }
  const PeerIdentity& peer() const { return handshake_.peer(); }
  bool authenticated() const { return state_ == State::Requests; }
  Clock::time_point since() const { return since_; }

  void start() {
    timer_.expires_after(host_.handshake_timeout());
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && !self->closed_ && !self->authenticated()) self->show_out("did not finish the handshake in time");
    });
    read();
  }

  /// Queues a reply; those to requests that came together leave together.
  void send(std::string message) {
    if (closed_) return;
    out_.append(std::move(message));
    if (!taking_requests_) flush();
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    asio::error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
    host_.left(*this);
  }

 private:
  enum class State { Hello, Proof, Refused, Requests };

  std::span<const std::byte> unread() const { return std::span(in_).subspan(begin_, end_ - begin_); }

  void read() {
    if (closed_ || reading_ || out_.unsent() > kUnreadRepliesLimit) return;
    reading_ = true;
    const auto free_space = asio::buffer(in_.data() + end_, in_.size() - end_);
    socket_.async_read_some(free_space, [self = shared_from_this()](const asio::error_code& error, std::size_t count) {
      self->reading_ = false;
      if (!self->closed_) self->on_read(error, count);
    });
  }

  void on_read(const asio::error_code& error, std::size_t count) {
    if (error) return on_end(error);
    end_ += count;
    proceed();
  }

  /// Consumes what has come, then reads on. Not while a read is pending: that owns the buffer's free space.
  void proceed() {
    try {
      if (state_ == State::Hello) take_hello();
      if (state_ == State::Proof) take_proof();
      if (state_ == State::Requests) take_requests();
    } catch (const std::exception& failed) {  // a stranger, or no memory for this client's request
      return show_out(failed.what());
    }
    if (closed_) return;
    make_room();
    read();
  }

  void on_end(const asio::error_code& error) {
    if (state_ == State::Hello) {
      host_.strangers().tell_of_leaver(address_ + " left before it had said hello", unread(), Clock::now());
    } else if (state_ == State::Proof) {
      host_.strangers().tell_of_leaver(name() + " left before it had proved the job secret", unread(), Clock::now());
    } else if (state_ == State::Requests && !host_.service().said_goodbye(id_)) {
      log(LogLevel::Info, "store: lost " + name() + ": " + error.message());
    }
    close();
  }

  /// After its hello.
  std::string name() const {
    return address_ + " (rank " + std::to_string(peer().rank) + ", pid " + std::to_string(peer().pid) + ")";
  }

  void show_out(const std::string& why) {
    host_.strangers().tell("store: closed " + address_ + ": " + why + "; it sent " + quote_bytes(unread()),
                           Clock::now());
    close();
  }

  void take_hello() {
    if (!may_be_hello(unread())) throw Error(ErrorCode::Protocol, "not a Tutti peer");
    if (unread().size() < kHelloBytes) return;
    const auto challenge = handshake_.challenge(unread().first<kHelloBytes>());
    begin_ += kHelloBytes;
    state_ = State::Proof;
    send(std::string(reinterpret_cast<const char*>(challenge.data()), challenge.size()));
  }

  void take_proof() {
    if (unread().size() < kProofBytes) return;
    const auto verdict = handshake_.verdict(unread().first<kProofBytes>());
    begin_ += kProofBytes;
    state_ = handshake_.accepted() ? State::Requests : State::Refused;
    if (authenticated()) {
      timer_.cancel();
      host_.joined(*this);
    } else {
      host_.strangers().tell("store: refused " + address_ + ": " + handshake_.refusal(), Clock::now());
    }
    send(std::string(reinterpret_cast<const char*>(verdict.data()), verdict.size()));
  }

  void take_requests() {
    taking_requests_ = true;
    while (true) {
      if (out_.unsent() > kUnreadRepliesLimit) flush();
      if (out_.unsent() > kUnreadRepliesLimit) break;
      const std::size_t skipped = std::min<std::size_t>(skip_, unread().size());
      begin_ += skipped;
      skip_ -= static_cast<std::uint32_t>(skipped);
      if (unread().size() < kStoreHeaderBytes) break;
      const StoreHeader header = decode_store_header(unread().first<kStoreHeaderBytes>());
      if (header.body_bytes > kMaxStoreBodyBytes) {
        begin_ += kStoreHeaderBytes;
        skip_ = header.body_bytes;
        host_.service().refuse_oversized(id_, header);
        continue;
      }
      if (unread().size() < kStoreHeaderBytes + header.body_bytes) break;
      const auto body = unread().subspan(kStoreHeaderBytes, header.body_bytes);
      begin_ += kStoreHeaderBytes + header.body_bytes;
      host_.service().handle(id_, header, body, Clock::now());
    }
    taking_requests_ = false;
    host_.handled_requests();
    flush();
  }

  /// Memory follows the bytes that have come, not the length that a header announces.
  void make_room() {
    const std::size_t kept = end_ - begin_;
    if (begin_ > 0) std::memmove(in_.data(), in_.data() + begin_, kept);
    begin_ = 0;
    end_ = kept;
    if (kept == in_.size()) {
      in_.resize(in_.size() * 2);
    } else if (kept == 0 && in_.size() > kSmallBuffer) {
      in_ = std::vector<std::byte>(kSmallBuffer);
    }
  }

  /// Sends what the connection takes now, and the rest when it takes more.
  void flush() {
    if (closed_ || awaiting_room_) return;
    const int result = out_.flush(socket_.native_handle());
    if (result == EAGAIN) return flush_when_there_is_room();
    if (result != 0) return end_soon(asio::error_code(result, asio::system_category()));
    if (state_ == State::Refused) close();
  }

  /// Not at once: the service may be in the midst of answering several clients.
  void end_soon(const asio::error_code& error) {
    awaiting_room_ = true;
    asio::post(socket_.get_executor(), [self = shared_from_this(), error] {
      if (!self->closed_) self->on_end(error);
    });
  }

  void flush_when_there_is_room() {
    awaiting_room_ = true;
    socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code& error) {
      self->awaiting_room_ = false;
      if (self->closed_) return;
      // A broken connection is noticed and told of by the read; but a full one was not being read.
      if (error) return self->on_end(error);
      self->flush();
      if (!self->closed_ && !self->reading_) self->proceed();
    });
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  const Clock::time_point since_ = Clock::now();
  std::uint64_t id_;
  std::string address_;
  Host& host_;
  ServerHandshake handshake_;
  State state_ = State::Hello;
  bool closed_ = false;
  bool reading_ = false;
  bool taking_requests_ = false;
  bool awaiting_room_ = false;

  std::vector<std::byte> in_;  // bytes [begin_, end_) have come and are not yet consumed
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint32_t skip_ = 0;  // of an oversized body, still to come
  SendBuffer out_;          // replies
};

PeerIdentity server_identity(const TcpStoreServerOptions& options) {
  PeerIdentity identity;
  identity.kind = ConnectionKind::Store;
  identity.world_size = options.world_size;
  identity.pid = static_cast<std::uint32_t>(::getpid());
  identity.job = identity_hash(options.job_id);
  return identity;
}

}  // namespace

class TcpStoreServer::Impl final : public Host {
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

  bool wait_until_unused(Deadline deadline) const {
    std::unique_lock lock(mutex_);
    return unused_.wait_until(lock, deadline.time_point(), [this] { return client_count_ == 0; });
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
      } catch (const std::exception& error) {  // memory ran out for one request; the others need not suffer
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

  /// Out of descriptors or memory: those who are in go on being served, the others wait in the backlog, unless there
  /// are strangers to make room for them.
  void accept_later(int error_number) {
    const bool no_descriptor = error_number == EMFILE;
    if (no_descriptor && (try_raise_descriptor_limit(kMoreDescriptors) || show_out_the_silent())) return accept_all();
    // Once; it may have to be tried many times.
    log(std::exchange(told_of_refusal_, true) ? LogLevel::Debug : LogLevel::Warn,
        "store: cannot accept a connection just now: " + errno_text(error_number) + "; " +
            std::to_string(service_.client_count()) + " clients are connected" +
            (no_descriptor ? "; raise RLIMIT_NOFILE (ulimit -Hn) where the store is served" : ""));
    accept_retry_.expires_after(kAcceptRetry);
    accept_retry_.async_wait([this](const asio::error_code& error) {
      if (!error) accept_all();
    });
  }

  /// Closes who has been here for a while without proving the secret. True if there was anybody.
  bool show_out_the_silent() {
    const auto before = Clock::now() - kPatienceWithoutRoom;
    std::vector<std::shared_ptr<Connection>> silent;
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
    const auto connection = std::make_shared<Connection>(std::move(socket), id, peer.text(), *this);
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

  void joined(Connection& connection) override {
    newcomers_.erase(connection.id());
    service_.client_joined(connection.id(), connection.peer(), connection.address());
    count_clients();
  }

  void handled_requests() override { arm_wait_timer(); }

  void left(Connection& connection) override {
    service_.client_left(connection.id());
    connections_.erase(connection.id());
    newcomers_.erase(connection.id());
    count_clients();
  }

  StrangerLog& strangers() override { return strangers_; }

  void count_clients() {
    const std::lock_guard lock(mutex_);
    client_count_ = service_.client_count();
    if (client_count_ == 0) unused_.notify_all();
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
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::set<std::uint64_t> newcomers_;  // connections that have not proved the secret yet, the oldest first

  mutable std::mutex mutex_;
  mutable std::condition_variable unused_;
  std::size_t client_count_ = 0;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : owner_pid_(::getpid()), impl_(std::make_unique<Impl>(options)) {}

TcpStoreServer::~TcpStoreServer() {
  // A forked child has no such thread to join, and shares the parent's epoll descriptor: it must leave all alone.
  if (::getpid() != owner_pid_) static_cast<void>(impl_.release());
}

std::uint16_t TcpStoreServer::port() const { return impl_->port(); }

bool TcpStoreServer::wait_until_unused(Deadline deadline) const {
  return ::getpid() != owner_pid_ || impl_->wait_until_unused(deadline);
}

}  // namespace tutti::comm
