#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/comm/bootstrap/local_address.h>
#include <tutti/comm/store/socket.h>

namespace tutti::comm {
namespace {

// Addresses that belong to nobody, only for documentation: the way to them is the way to everybody.
constexpr char kSomewhere4[] = "192.0.2.1";
constexpr char kSomewhere6[] = "2001:db8::1";
constexpr std::uint16_t kDiscardPort = 9;

/// Connecting a datagram socket sends nothing, but makes the kernel choose the route and with it our address.
std::string source_address_towards(const char* host) {
  std::string error;
  for (const Endpoint& endpoint : resolve(host, kDiscardPort, ResolveFor::Connecting, error)) {
    const Socket socket(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0 || ::connect(socket.get(), endpoint.address(), endpoint.length) != 0) continue;
    return local_endpoint(socket.get()).host();
  }
  return {};
}

}  // namespace

std::string default_route_address() {
  const std::string v4 = source_address_towards(kSomewhere4);
  return v4.empty() ? source_address_towards(kSomewhere6) : v4;
}

bool is_loopback_endpoint(const std::string& endpoint) {
  return endpoint.starts_with("127.") || endpoint.starts_with("[::1]");
}

}  // namespace tutti::comm
