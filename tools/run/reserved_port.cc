#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/tools/run/reserved_port.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace tutti::tools {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses resolve(const std::string& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.c_str(), "0", &wanted, &found); error != 0) {
    throw comm::Error(comm::ErrorCode::InvalidArgument, "--master-addr '" + address + "': " + ::gai_strerror(error));
  }
  return {found, ::freeaddrinfo};
}

}  // namespace

ReservedPort::ReservedPort(const std::string& address) {
  const Addresses addresses = resolve(address);
  const int on = 1;
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  fd_ = ::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd_, addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    comm::throw_errno("cannot reserve a port on " + address, error);
  }
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

ReservedPort::~ReservedPort() { ::close(fd_); }

}  // namespace tutti::tools
