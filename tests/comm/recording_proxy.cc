#include "recording_proxy.h"

#include <poll.h>
#include <tutti/comm/base/error.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace tutti::comm::test {
namespace {

constexpr int kLookMilliseconds = 20;  // whether the proxy is to stop

Endpoint loopback(std::uint16_t port) {
  std::string error;
  const auto endpoints = resolve("127.0.0.1", port, ResolveFor::Connecting, error);
  if (endpoints.empty()) throw Error(ErrorCode::System, error);
  return endpoints.front();
}

bool send_all(int socket, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

RecordingProxy::RecordingProxy(std::uint16_t target)
    : target_(target), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const Endpoint any = loopback(0);
  if (::bind(listener_.get(), any.address(), any.length) != 0 || ::listen(listener_.get(), 16) != 0)
    throw_errno("listen", errno);
  port_ = local_endpoint(listener_.get()).port();
  acceptor_ = std::thread([this] { accept_all(); });
}

RecordingProxy::~RecordingProxy() {
  stopping_ = true;
  acceptor_.join();
  for (Connection& connection : connections_) connection.thread.join();
}

std::string RecordingProxy::from_clients() const {
  const std::lock_guard lock(mutex_);
  return from_clients_;
}

std::string RecordingProxy::from_servers() const {
  const std::lock_guard lock(mutex_);
  return from_servers_;
}

void RecordingProxy::accept_all() {
  while (!stopping_) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, kLookMilliseconds) <= 0) continue;
    Connection& connection = connections_.emplace_back();
    connection.client = Socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    connection.server = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    tune_connection(connection.client.get());
    tune_connection(connection.server.get());
    const Endpoint target = loopback(target_);
    const bool connected = ::connect(connection.server.get(), target.address(), target.length) == 0;
    connection.thread = std::thread([this, &connection, connected] {
      if (connected) pump(connection);
      connection.client.close();
      connection.server.close();
    });
  }
}

void RecordingProxy::pump(Connection& connection) {
  const int client = connection.client.get(), server = connection.server.get();
  while (!stopping_) {
    std::array<pollfd, 2> ready{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), kLookMilliseconds) <= 0) continue;
    if (ready[0].revents != 0 && !forward(client, server, from_clients_, false)) return;
    if (ready[1].revents != 0 && !forward(server, client, from_servers_, true)) return;
  }
}

bool RecordingProxy::forward(int from, int to, std::string& record, bool from_server) {
  std::vector<char> bytes(64 * 1024);
  const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  const auto count = static_cast<std::size_t>(got);
  {
    const std::lock_guard lock(mutex_);
    record.append(bytes.data(), count);
  }
  if (from_server && flip_.exchange(false)) bytes[count - 1] = static_cast<char>(bytes[count - 1] ^ 1);
  if (from_server && cut_.exchange(false)) {
    send_all(to, bytes.data(), count / 2);
    return false;
  }
  return send_all(to, bytes.data(), count);
}

}  // namespace tutti::comm::test
