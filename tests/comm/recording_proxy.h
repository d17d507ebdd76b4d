// RecordingProxy: the man in the middle of a connection between two ranks. It passes bytes on, keeps a copy, and on
// demand changes them or cuts the connection.
#pragma once

#include <poll.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/socket.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti::comm::test {

class RecordingProxy {
 public:
  /// Listens on a free port of 127.0.0.1 and connects each client that comes to `target` there.
  explicit RecordingProxy(std::uint16_t target)
      : target_(loopback(target)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Endpoint any = loopback(0);
    if (::bind(listener_.get(), any.address(), any.length) != 0 || ::listen(listener_.get(), 16) != 0)
      throw_errno("listen", errno);
    endpoint_ = local_endpoint(listener_.get()).text();
    thread_ = std::thread([this] {
      while (!stopping_) serve();
    });
  }
  ~RecordingProxy() {
    stopping_ = true;
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }

  /// What has passed so far in all connections, by direction.
  std::string from_clients() const { return copy_of(from_clients_); }
  std::string from_servers() const { return copy_of(from_servers_); }

  /// Flips the lowest bit of the last byte of what the server sends next.
  void flip_a_bit_of_the_server() { flip_ = true; }
  /// Passes on half of what the server sends next, and ends both connections in good order (FIN).
  void cut_what_the_server_sends() { cut_ = true; }

 private:
  struct Connection {
    Socket client;
    Socket server;
  };

  static Endpoint loopback(std::uint16_t port) {
    std::string error;
    return resolve("127.0.0.1", port, ResolveFor::Connecting, error).at(0);
  }

  std::string copy_of(const std::string& record) const {
    const std::lock_guard lock(mutex_);
    return record;
  }

  void serve() {
    constexpr int kLookMilliseconds = 20;  // whether the proxy is to stop
    std::vector<pollfd> ready{{listener_.get(), POLLIN, 0}};
    for (const Connection& one : connections_)
      for (const Socket* end : {&one.client, &one.server}) ready.push_back({end->get(), POLLIN, 0});
    if (::poll(ready.data(), ready.size(), kLookMilliseconds) <= 0) return;
    for (std::size_t i = connections_.size(); i-- > 0;) {
      const int client = connections_[i].client.get(), server = connections_[i].server.get();
      const bool goes_on = (ready[2 * i + 1].revents == 0 || forward(client, server, from_clients_, false)) &&
                           (ready[2 * i + 2].revents == 0 || forward(server, client, from_servers_, true));
      if (!goes_on) connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (ready[0].revents != 0) accept_one();
  }

  void accept_one() {
    Connection one{Socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                   Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
    tune_connection(one.client.get());
    tune_connection(one.server.get());
    if (::connect(one.server.get(), target_.address(), target_.length) == 0) connections_.push_back(std::move(one));
  }

  /// False when the connection has ended.
  bool forward(int from, int to, std::string& record, bool from_server) {
    std::string bytes(64 * 1024, '\0');
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    bytes.resize(static_cast<std::size_t>(got));
    {
      const std::lock_guard lock(mutex_);
      record += bytes;
    }
    if (from_server && flip_.exchange(false)) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    const bool cut = from_server && cut_.exchange(false);
    if (cut) bytes.resize(bytes.size() / 2);
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = ::send(to, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count < 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return !cut;
  }

  const Endpoint target_;
  Socket listener_;
  std::string endpoint_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> flip_{false};
  std::atomic<bool> cut_{false};
  mutable std::mutex mutex_;
  std::string from_clients_;
  std::string from_servers_;
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace tutti::comm::test
