#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/socket_util.h>

#include <charconv>
#include <string_view>

namespace tutti::comm {

std::string to_string(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

asio::ip::tcp::endpoint parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon != std::string::npos && colon > 0) {
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    asio::error_code error;
    const auto address = asio::ip::make_address(host, error);
    unsigned port = 0;
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data() + colon + 1, end, port);
    if (!error && code == std::errc() && stop == end && port <= 65535)
      return {address, static_cast<asio::ip::port_type>(port)};
  }
  throw Error(ErrorCode::InvalidArgument, "'" + text + "' is no address:port");
}

void prepare(asio::ip::tcp::socket& socket) {
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

std::size_t packet_bytes(int socket) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  const bool known = ::getsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) == 0;
  return known ? static_cast<std::size_t>(bytes) : 0;
}

void hold_back(int socket, bool held) {
  const int no_delay = held ? 0 : 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
}

void acknowledge_now(int socket, bool later_ones_too) {
  const int how = later_ones_too ? 1 : 2;  // even: once
  ::setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &how, sizeof how);
}

bool stays_on_this_host(const asio::ip::tcp::socket& socket) {
  asio::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return false;
  const auto local = socket.local_endpoint(error);
  return !error && (remote.address().is_loopback() || remote.address() == local.address());
}

void prepare_connected(asio::ip::tcp::socket& socket) {
  constexpr std::string_view kReno = "reno";
  if (stays_on_this_host(socket))
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

}  // namespace tutti::comm
