#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/store_loop.h>
#include <tutti/comm/store/torch/torch_service.h>
#include <tutti/comm/store/torch/torch_store_server.h>

#include <atomic>
#include <optional>
#include <utility>

namespace tutti::comm {

class TorchStoreServer::Impl {
 public:
  explicit Impl(const TorchStoreServerOptions& options)
      : max_bytes_(options.max_bytes),
        service_(options.max_bytes,
                 [this](std::uint64_t client, std::string message) { loop_.send(client, std::move(message)); }),
        loop_({.name = "store for PyTorch",
               .bind_address = options.bind_address,
               .port = options.port,
               .kept_descriptors = kOwnDescriptors},
              [this] { return std::make_unique<Codec>(*this); }) {
    loop_.start();
  }

  std::uint16_t port() const { return loop_.port(); }
  std::size_t client_count() const { return client_count_; }

 private:
  static constexpr int kOwnDescriptors = 32;  // kept free for the program we serve in

  class Codec final : public StoreCodec {
   public:
    explicit Codec(Impl& server) : server_(server) { ++server_.client_count_; }

    void take(StoreConnection& connection) override {
      if (!std::exchange(joined_, true)) server_.service_.client_joined(connection.id(), connection.address());
      // A client that sends twice without a reply between (SET and GET, VALIDATE and PING) holds the second back until
      // the first is acknowledged, which the kernel would put off for 40 ms. It forgets this setting; so it is made
      // each time.
      const int on = 1;
      ::setsockopt(connection.descriptor(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
      while (!connection.unread().empty() && connection.takes_replies()) {
        const auto bytes = connection.unread();
        connection.consume(reader_.feed({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
        std::optional<TorchRequest> request = reader_.take();
        const std::size_t held = reader_.held_bytes() + connection.unread().size();
        server_.held_bytes_ += held - std::exchange(held_bytes_, held);
        if (server_.held_bytes_ > server_.max_bytes_) refuse("too much is on its way into the store");
        if (!request) return;
        server_.service_.handle(connection.id(), reader_.generation(), *request);
      }
    }

    void left(StoreConnection& connection, const std::string&) override {
      server_.held_bytes_ -= held_bytes_;
      --server_.client_count_;
      server_.service_.client_left(connection.id());
    }

   private:
    Impl& server_;
    TorchRequestReader reader_;
    bool joined_ = false;
    std::size_t held_bytes_ = 0;  // of what is in the server's sum
  };

  const std::size_t max_bytes_;
  std::atomic<std::size_t> client_count_{0};
  TorchStoreService service_;
  std::size_t held_bytes_ = 0;  // of requests that are not complete
  StoreLoop loop_;
};

TorchStoreServer::TorchStoreServer(const TorchStoreServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}

TorchStoreServer::~TorchStoreServer() = default;

std::uint16_t TorchStoreServer::port() const { return impl_->port(); }

std::size_t TorchStoreServer::client_count() const { return impl_->client_count(); }

}  // namespace tutti::comm
