#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/transport/tcp/socket_util.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>

namespace tutti::comm {

std::string to_string(const asio::ip::tcp::endpoint& endpoint) {
  return host_and_port(endpoint.address().to_string(), endpoint.port());
}

asio::ip::tcp::endpoint parse_endpoint(const std::string& text) {
  asio::error_code error;
  const auto address = asio::ip::make_address(address_of_endpoint(text), error);
  const auto port = decimal<asio::ip::port_type>(std::string_view(text).substr(text.rfind(':') + 1));
  if (error || !port) refuse("'", text, "' is no address:port");
  return {address, *port};
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
