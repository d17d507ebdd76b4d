#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/descriptor_limit.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/store/send_buffer.h>
#include <tutti/comm/store/stranger_log.h>
#include <tutti/comm/store/torch/torch_service.h>
#include <tutti/comm/store/torch/torch_store_server.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti::comm {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kUnreadRepliesLimit = 64 * 1024;
constexpr int kRequestsPerTurn = 64;
constexpr int kAcceptsPerTurn = 64;
constexpr int kAcceptPauseMs = 100;
constexpr int kOwnDescriptors = 32;  // kept free for the program we serve in
constexpr std::size_t kMoreDescriptors = 4096;
constexpr std::uint64_t kListenerId = 0, kStopId = 1, kFirstClientId = 2;

struct Connection {
  Socket socket;
  std::string address;
  TorchRequestReader reader;
  std::string in;  // bytes [begin, size) have come and are not yet consumed
  std::size_t begin = 0;
  SendBuffer out;
  std::uint32_t events = 0;    // what epoll watches
  std::size_t held_bytes = 0;  // of the reader, as far as they are in the server's sum

  bool has_unread() const { return begin < in.size(); }
};

bool leaves_room(int descriptor) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return true;
  return static_cast<rlim_t>(descriptor) + kOwnDescriptors < limit.rlim_cur;
}

}  // namespace

class TorchStoreServer::Impl {
 public:
  explicit Impl(const TorchStoreServerOptions& options)
      : max_bytes_(options.max_bytes),
        listener_(listen_on(options.bind_address, options.port)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        port_(local_endpoint(listener_.get()).port()),
        service_(options.max_bytes, [this](std::uint64_t id, std::string message) { send(id, std::move(message)); }) {
    if (epoll_.get() < 0 || stop_.get() < 0) throw_errno("cannot make an event loop for the store", errno);
    watch(listener_.get(), kListenerId, EPOLLIN, EPOLL_CTL_ADD);
    watch(stop_.get(), kStopId, EPOLLIN, EPOLL_CTL_ADD);
    // Signals belong to the threads of the program, not to this one.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Impl() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  std::size_t client_count() const { return client_count_; }

 private:
  void watch(int descriptor, std::uint64_t id, std::uint32_t events, int operation) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (::epoll_ctl(epoll_.get(), operation, descriptor, &event) != 0) throw_errno("cannot watch a connection", errno);
  }

  void run() {
    std::array<epoll_event, 64> events;
    for (;;) {
      const int count =
          ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), paused_ ? kAcceptPauseMs : -1);
      if (std::exchange(paused_, false)) watch(listener_.get(), kListenerId, EPOLLIN, EPOLL_CTL_MOD);
      for (int i = 0; i < count; ++i) {
        const auto& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == kStopId) return;
        if (event.data.u64 == kListenerId) {
          accept_some();
        } else {
          serve(event.data.u64, event.events);
        }
      }
    }
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      Socket accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (accepted.get() < 0) {
        if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
        return pause_accepting(errno_text(errno));
      }
      if (!leaves_room(accepted.get()) && !try_raise_descriptor_limit(kMoreDescriptors)) {
        accepted.close();
        return pause_accepting("no descriptors are left");
      }
      try {
        welcome(std::move(accepted));
      } catch (const std::exception& failed) {
        strangers_.tell(std::string("store for PyTorch: a connection was not taken: ") + failed.what(),
                        StrangerLog::Clock::now());
      }
    }
  }

  void pause_accepting(const std::string& why) {
    strangers_.tell("store for PyTorch: cannot take more connections: " + why + "; " + std::to_string(clients_.size()) +
                        " clients are connected",
                    StrangerLog::Clock::now());
    watch(listener_.get(), kListenerId, 0, EPOLL_CTL_MOD);
    paused_ = true;
  }

  void welcome(Socket accepted) {
    tune_connection(accepted.get());
    Connection connection;
    connection.address = remote_endpoint(accepted.get()).text();
    connection.events = EPOLLIN;
    connection.socket = std::move(accepted);
    const std::uint64_t id = next_id_++;
    const auto entry = clients_.emplace(id, std::move(connection)).first;
    try {
      watch(entry->second.socket.get(), id, EPOLLIN, EPOLL_CTL_ADD);
    } catch (...) {
      clients_.erase(entry);
      throw;
    }
    client_count_ = clients_.size();
  }

  void serve(std::uint64_t id, std::uint32_t events) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;  // closed by an earlier event of this round
    Connection& client = found->second;
    try {
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !client.has_unread() && !receive(client)) return close(id);
      take_requests(id, client);
    } catch (const std::exception& failed) {
      strangers_.tell("store for PyTorch: closed the connection from " + client.address + ": " + failed.what(),
                      StrangerLog::Clock::now());
      close(id);
    }
    dirty_.push_back(id);
    for (const std::uint64_t written : std::exchange(dirty_, {})) flush(written);
  }

  /// False when the client has gone.
  static bool receive(Connection& client) {
    client.begin = 0;
    client.in.resize(kReadBytes);
    const ssize_t count = ::recv(client.socket.get(), client.in.data(), client.in.size(), 0);
    const int error = errno;
    // A client that sends twice without a reply between (SET and GET, VALIDATE and PING) holds the second back until
    // the first is acknowledged, which the kernel would put off for 40 ms. It forgets this setting; so it is made each
    // time.
    const int on = 1;
    ::setsockopt(client.socket.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
    client.in.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return count > 0 || (count < 0 && (error == EAGAIN || error == EINTR));
  }

  void take_requests(std::uint64_t id, Connection& client) {
    for (int turn = 0; client.has_unread() && turn < kRequestsPerTurn; ++turn) {
      if (client.out.unsent() > kUnreadRepliesLimit) break;
      client.begin += client.reader.feed(std::string_view(client.in).substr(client.begin));
      std::optional<TorchRequest> request = client.reader.take();
      held_bytes_ += client.reader.held_bytes();
      held_bytes_ -= std::exchange(client.held_bytes, client.reader.held_bytes());
      if (held_bytes_ > max_bytes_) throw Error(ErrorCode::InvalidArgument, "too much is on its way into the store");
      if (request) service_.handle(id, client.reader.generation(), std::move(*request));
    }
    if (!client.has_unread()) client.in = std::string();
  }

  void send(std::uint64_t id, std::string message) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    found->second.out.append(std::move(message));
    dirty_.push_back(id);
  }

  void flush(std::uint64_t id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    Connection& client = found->second;
    const int result = client.out.flush(client.socket.get());
    if (result != 0 && result != EAGAIN) return close(id);
    // Bytes that wait for their turn are handled when the connection can be written to: at once, mostly.
    const bool to_write = client.out.unsent() > 0 || client.has_unread();
    const std::uint32_t wanted = (client.has_unread() ? 0U : std::uint32_t{EPOLLIN}) | (to_write ? EPOLLOUT : 0U);
    if (wanted != client.events) watch(client.socket.get(), id, wanted, EPOLL_CTL_MOD);
    client.events = wanted;
  }

  void close(std::uint64_t id) {
    const auto found = clients_.find(id);
    held_bytes_ -= found->second.held_bytes;
    clients_.erase(found);
    client_count_ = clients_.size();
    service_.client_left(id);
  }

  const std::size_t max_bytes_;
  Socket listener_, epoll_, stop_;
  const std::uint16_t port_;
  std::atomic<std::size_t> client_count_{0};

  // Everything below belongs to the loop's thread.
  TorchStoreService service_;
  StrangerLog strangers_;
  bool paused_ = false;  // accepting
  std::uint64_t next_id_ = kFirstClientId;
  std::unordered_map<std::uint64_t, Connection> clients_;
  std::vector<std::uint64_t> dirty_;  // clients that something was sent to
  std::size_t held_bytes_ = 0;        // of requests that are not complete
  std::thread thread_;
};

TorchStoreServer::TorchStoreServer(const TorchStoreServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}

TorchStoreServer::~TorchStoreServer() = default;

std::uint16_t TorchStoreServer::port() const { return impl_->port(); }

std::size_t TorchStoreServer::client_count() const { return impl_->client_count(); }

}  // namespace tutti::comm
