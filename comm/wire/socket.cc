#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <tutti/comm/base/blocked_signals.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

namespace tutti::comm {
namespace {

const sockaddr_in& as_v4(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in&>(storage); }
const sockaddr_in6& as_v6(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in6&>(storage); }

void set_option(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

bool is_number(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1 || ::inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

template <typename Ask>
Endpoint endpoint_by(Ask ask, int socket, const char* what) {
  Endpoint result;
  result.length = sizeof result.storage;
  if (ask(socket, reinterpret_cast<sockaddr*>(&result.storage), &result.length) != 0) throw_errno(what, errno);
  return result;
}

}  // namespace

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

std::string Endpoint::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    ::inet_ntop(AF_INET, &as_v4(storage).sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    const in6_addr& v6 = as_v6(storage).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      ::inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &v6, text, sizeof text);
    }
  }
  return text;
}

std::uint16_t Endpoint::port() const {
  if (family() == AF_INET) return ntohs(as_v4(storage).sin_port);
  if (family() == AF_INET6) return ntohs(as_v6(storage).sin6_port);
  return 0;
}

std::string Endpoint::text() const { return host_and_port(host(), port()); }

std::string host_and_port(const std::string& host, std::uint16_t port) {
  const bool bare_v6 = host.find(':') != std::string::npos;
  return joined(bare_v6 ? "[" + host + "]" : host, ":", port);
}

Endpoint local_endpoint(int socket) { return endpoint_by(::getsockname, socket, "read a socket's own address"); }

Endpoint remote_endpoint(int socket) { return endpoint_by(::getpeername, socket, "read a socket's peer address"); }

std::vector<Endpoint> resolve(const std::string& host, std::uint16_t port, ResolveFor purpose, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (purpose == ResolveFor::Binding ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) {
    error = status == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(status);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<Endpoint> result;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, entry->ai_addr, entry->ai_addrlen);
    endpoint.length = entry->ai_addrlen;
    result.push_back(endpoint);
  }
  if (result.empty()) error = "the name has no IPv4 or IPv6 address";
  return result;
}

LookUpResult look_up_within(std::function<LookUpResult()> look_up, Deadline deadline) {
  std::packaged_task<LookUpResult()> task(std::move(look_up));
  std::future<LookUpResult> result = task.get_future();
  try {
    const BlockedSignals blocked;
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::System, "cannot start a thread to look up a host name: ", error.code().message());
  }
  if (result.wait_until(deadline.time_point()) == std::future_status::ready) return result.get();
  return {{}, "the name service has not answered in time"};
}

std::vector<Endpoint> resolve_within(const std::string& host, std::uint16_t port, Deadline deadline,
                                     std::string& error) {
  if (is_number(host)) return resolve(host, port, ResolveFor::Connecting, error);
  LookUpResult found = look_up_within(
      [host, port] {
        LookUpResult result;
        result.endpoints = resolve(host, port, ResolveFor::Connecting, result.error);
        return result;
      },
      deadline);
  error = std::move(found.error);
  return std::move(found.endpoints);
}

int connect_until(const Socket& socket, const Endpoint& endpoint, Deadline deadline) {
  int error_number = ::connect(socket.get(), endpoint.address(), endpoint.length) == 0 ? 0 : errno;
  if (error_number != EINPROGRESS && error_number != EINTR) return error_number;
  if (!poll_until(socket.get(), POLLOUT, deadline)) return ETIMEDOUT;
  socklen_t length = sizeof error_number;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
  return error_number;
}

bool poll_until(int socket, short events, Deadline deadline) {
  constexpr std::int64_t kLongestPoll = 3'600'000;
  for (;;) {
    pollfd entry{socket, events, 0};
    const auto left = std::min<std::int64_t>(deadline.remaining().count(), kLongestPoll);
    const int ready = ::poll(&entry, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("wait for a socket", errno);
    if (deadline.expired()) return false;
  }
}

void tune_connection(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace tutti::comm
