#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/store_loop.h>
#include <tutti/comm/store/store_service.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

namespace tutti::comm {
namespace {

// Descriptors of a server besides its clients': listener, event loop, and what its process opens meanwhile.
constexpr std::size_t kOwnDescriptors = 16;

}  // namespace

class TcpStoreServer::Impl {
 public:
  explicit Impl(const TcpStoreServerOptions& options)
      : options_(options),
        identity_{.kind = ConnectionKind::Store,
                  .world_size = options.world_size,
                  .pid = static_cast<std::uint32_t>(::getpid()),
                  .job = identity_hash(options.job_id)},
        service_([this](std::uint64_t client, const StoreHeader& request, StoreStatus status, const StoreBody& body) {
          loop_.send(client, encoded_reply(request, status, body));
        }),
        loop_({.name = "store",
               .bind_address = options.bind_address,
               .port = options.port,
               .patience = options.handshake_timeout},
              [this] { return std::make_unique<Codec>(*this); }) {
    if (options.world_size > 0) {
      raise_descriptor_limit(static_cast<std::size_t>(options.world_size) + kOwnDescriptors,
                             "a store server for " + std::to_string(options.world_size) + " ranks");
    }
    loop_.start();
  }

  ~Impl() { loop_.stop(); }  // before anything goes that its thread uses

  std::uint16_t port() const { return loop_.port(); }

  void rank_ended(int rank, const std::string& text) {
    loop_.post([this, rank, text] { service_.rank_ended(rank, text); });
  }

  bool wait_until_unused(Deadline deadline) const {
    std::unique_lock lock(mutex_);
    return unused_.wait_until(lock, deadline.time_point(), [this] { return client_count_ == 0; });
  }

  bool close_when_unused(Deadline deadline) {
    std::unique_lock lock(mutex_);
    closes_ = true;
    loop_.post([this] { count_clients(); });
    return unused_.wait_until(lock, deadline.time_point(), [this] { return !closes_; }) && client_count_ == 0;
  }

 private:
  /// The handshake first, then requests.
  class Codec final : public StoreCodec {
   public:
    explicit Codec(Impl& server) : server_(server), handshake_(server.identity_, server.options_.job_secret) {}

    void take(StoreConnection& connection) override {
      if (state_ == State::Hello) take_hello(connection);
      if (state_ == State::Proof) take_proof(connection);
      if (state_ != State::Requests) return;
      while (connection.takes_replies() && take_request(connection)) {
      }
    }

    void left(StoreConnection& connection, const std::string& how) override {
      if (!how.empty()) log_leaver(connection, how);
      server_.service_.client_left(connection.id());
      server_.count_clients();
    }

   private:
    enum class State { Hello, Proof, Refused, Requests };

    /// After its hello.
    std::string name(const StoreConnection& connection) const {
      const PeerIdentity& peer = handshake_.peer();
      return joined(connection.address(), " (rank ", peer.rank, ", pid ", peer.pid, ")");
    }

    void log_leaver(const StoreConnection& connection, const std::string& how) {
      StrangerLog& strangers = server_.loop_.strangers();
      if (state_ == State::Hello) {
        strangers.tell_of_leaver(connection.address() + " left before it had said hello", connection.unread());
      } else if (state_ == State::Proof) {
        strangers.tell_of_leaver(name(connection) + " left before it had proved the job secret", connection.unread());
      } else if (state_ == State::Requests && !server_.service_.said_goodbye(connection.id())) {
        log(LogLevel::Info, "store: lost ", name(connection), ": ", how);
      }
    }

    void take_hello(StoreConnection& connection) {
      if (!may_be_hello(connection.unread())) throw Error(ErrorCode::Protocol, "not a Tutti peer");
      if (connection.unread().size() < kHelloBytes) return;
      const auto challenge = handshake_.challenge(connection.unread().first<kHelloBytes>());
      connection.consume(kHelloBytes);
      state_ = State::Proof;
      connection.send(std::string(reinterpret_cast<const char*>(challenge.data()), challenge.size()));
    }

    void take_proof(StoreConnection& connection) {
      if (connection.unread().size() < kProofBytes) return;
      const auto verdict =
          handshake_.verdict(connection.unread().first<kProofBytes>(), server_.service_.objection(handshake_.peer()));
      connection.consume(kProofBytes);
      if (handshake_.accepted()) {
        state_ = State::Requests;
        connection.admit();
        server_.service_.client_joined(connection.id(), handshake_.peer(), connection.address());
        server_.count_clients();
      } else {
        state_ = State::Refused;
        connection.close_after_replies();
        server_.loop_.strangers().tell("refused " + connection.address() + ": " + handshake_.refusal());
      }
      connection.send(std::string(reinterpret_cast<const char*>(verdict.data()), verdict.size()));
    }

    /// False if none is complete.
    bool take_request(StoreConnection& connection) {
      const auto unread = connection.unread();
      if (unread.size() < kStoreHeaderBytes) return false;
      const StoreHeader header = decode_store_header(unread.first<kStoreHeaderBytes>());
      if (header.body_bytes > kMaxStoreBodyBytes) {
        refuse(connection, header);
        return false;
      }
      if (unread.size() < kStoreHeaderBytes + header.body_bytes) return false;
      connection.consume(kStoreHeaderBytes + header.body_bytes);
      server_.service_.handle(connection.id(), header, unread.subspan(kStoreHeaderBytes, header.body_bytes));
      return true;
    }

    /// A body over the limit is not waited for.
    void refuse(StoreConnection& connection, const StoreHeader& header) {
      const std::string text = "a store request of " + std::to_string(header.body_bytes) + " bytes; the limit is " +
                               std::to_string(kMaxStoreBodyBytes) + ": split the call";
      state_ = State::Refused;
      connection.close_after_replies();
      connection.send(encoded_reply(header, StoreStatus::InvalidArgument, {0, {text}}));
      server_.loop_.strangers().tell("refused " + connection.address() + ": " + text);
    }

    Impl& server_;
    ServerHandshake handshake_;
    State state_ = State::Hello;
  };

  void count_clients() {
    std::unique_lock lock(mutex_);
    client_count_ = service_.client_count();
    const bool closes = closes_ && client_count_ == 0;
    if (closes || (closes_ && service_.some_are_ahead())) closes_ = false;
    lock.unlock();
    if (closes) loop_.close_port();
    unused_.notify_all();
  }

  const TcpStoreServerOptions options_;
  const PeerIdentity identity_;

  mutable std::mutex mutex_;
  mutable std::condition_variable unused_;
  std::size_t client_count_ = 0;
  bool closes_ = false;  // as soon as there is no client, unless one is ahead

  // Of the loop's thread, but for what StoreLoop lets others do.
  StoreService service_;
  StoreLoop loop_;
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
