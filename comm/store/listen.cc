#include <netinet/in.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/listen.h>

#include <cerrno>

namespace tutti::comm {
namespace {

constexpr int kBacklog = 4096;  // the kernel caps it at somaxconn

/// Returns 0 or errno.
int try_listen(const Endpoint& endpoint, bool both_families, Socket& result) {
  Socket candidate(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (candidate.get() < 0) return errno;
  const int on = 1;
  ::setsockopt(candidate.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (endpoint.family() == AF_INET6) {
    const int v6_only = both_families ? 0 : 1;
    ::setsockopt(candidate.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  if (::bind(candidate.get(), endpoint.address(), endpoint.length) != 0) return errno;
  if (::listen(candidate.get(), kBacklog) != 0) return errno;
  result = std::move(candidate);
  return 0;
}

[[noreturn]] void cannot_listen(const std::string& where, std::uint16_t port, int error_number) {
  std::string text = "cannot listen on " + where + ": " + errno_text(error_number);
  if (error_number == EADDRINUSE) {
    const std::string holder = port_holder(port);
    text += holder.empty() ? "; the process that holds the port cannot be seen from here" : "; it is held by " + holder;
    text += "; choose another port, or 0 to let the kernel pick one";
  } else if (error_number == EADDRNOTAVAIL) {
    text += "; no interface of this host has that address";
  }
  throw Error(ErrorCode::System, text);
}

}  // namespace

Socket listen_on(const std::string& bind_address, std::uint16_t port) {
  const bool everywhere = bind_address.empty() || bind_address == "::";
  const std::string where = host_and_port(everywhere ? "::" : bind_address, port);
  std::string resolve_error;
  std::vector<Endpoint> candidates =
      resolve(everywhere ? "::" : bind_address, port, ResolveFor::Binding, resolve_error);
  if (everywhere) {  // a host without IPv6 still has all its IPv4 interfaces
    for (const Endpoint& v4 : resolve("0.0.0.0", port, ResolveFor::Binding, resolve_error)) candidates.push_back(v4);
  }
  if (candidates.empty()) {
    throw Error(ErrorCode::InvalidArgument, "cannot listen on \"" + bind_address + "\": " + resolve_error +
                                                "; give an address or a name of this host");
  }
  int first_error = 0;
  for (const Endpoint& endpoint : candidates) {
    Socket result;
    const int error_number = try_listen(endpoint, everywhere, result);
    if (error_number == 0) return result;
    if (first_error == 0) first_error = error_number;
    // Only a missing address family makes the next address as good; a taken port must not move us elsewhere.
    if (error_number != EAFNOSUPPORT && error_number != EADDRNOTAVAIL) break;
  }
  cannot_listen(where, port, first_error);
}

}  // namespace tutti::comm
