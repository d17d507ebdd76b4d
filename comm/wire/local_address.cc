#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace tutti::comm {
namespace {

// Documentation addresses that no host has (RFC 5737, 3849): the route to them is the default route.
constexpr char kSomewhere4[] = "192.0.2.1";
constexpr char kSomewhere6[] = "2001:db8::1";
constexpr std::uint16_t kDiscardPort = 9;

Endpoint endpoint_of(const sockaddr* address) {
  Endpoint endpoint;
  endpoint.length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&endpoint.storage, address, endpoint.length);
  return endpoint;
}

int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  if (mask->sa_family == AF_INET) return std::popcount(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
  int bits = 0;
  for (const std::uint8_t byte : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr)
    bits += std::popcount(byte);
  return bits;
}

int speed_of(const std::string& interface) {
  int megabits = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> megabits;
  return megabits > 0 ? megabits : 0;  // -1 where the driver does not know
}

InterfaceAddress::Kind kind_of(const std::string& name, unsigned flags) {
  std::error_code ignored;
  if ((flags & IFF_LOOPBACK) != 0) return InterfaceAddress::Kind::Loopback;
  // Within a container the only card may well be the far end of a veth's cable; that one has a card's name.
  const bool is_virtual = std::filesystem::exists("/sys/class/net/" + name + "/bridge", ignored) ||
                          name.starts_with("veth") || name.starts_with("docker") || name.starts_with("virbr");
  return is_virtual ? InterfaceAddress::Kind::Virtual : InterfaceAddress::Kind::Ordinary;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    result.push_back({.interface = entry->ifa_name,
                      .address = endpoint_of(entry->ifa_addr).host(),
                      .prefix = prefix_of(entry->ifa_netmask),
                      .up = (entry->ifa_flags & kUp) == kUp,
                      .kind = kind_of(entry->ifa_name, entry->ifa_flags),
                      .megabits = speed_of(entry->ifa_name)});
  }
  return result;
}

std::string route_source(const std::string& host) {
  std::string error;
  for (const Endpoint& endpoint : resolve(host, kDiscardPort, ResolveFor::Connecting, error)) {
    // Connecting a datagram socket sends nothing, but makes the kernel choose the route and with it our address.
    const Socket socket(::socket(endpoint.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0 || ::connect(socket.get(), endpoint.address(), endpoint.length) != 0) continue;
    return local_endpoint(socket.get()).host();
  }
  return {};
}

std::string default_route_address() {
  const std::string v4 = route_source(kSomewhere4);
  return v4.empty() ? route_source(kSomewhere6) : v4;
}

std::string loopback_address(const std::vector<InterfaceAddress>& interfaces) {
  const auto has = [&](const char* beginning) {
    return std::ranges::any_of(interfaces, [&](const auto& one) { return one.address.starts_with(beginning); });
  };
  return has("::1") && !has("127.") ? "::1" : "127.0.0.1";
}

bool is_loopback_address(std::string_view address) { return address.starts_with("127.") || address == "::1"; }

bool is_loopback_endpoint(std::string_view endpoint) { return is_loopback_address(address_of_endpoint(endpoint)); }

std::string address_of_endpoint(std::string_view endpoint) {
  std::string_view host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

std::string_view connect_hint(int error_number) {
  switch (error_number) {
    case ECONNREFUSED:
      return "nothing listens there: its process has ended, or a firewall refuses for it";
    case ENETUNREACH:
      return "this host has no route there: is that the right interface, and the right family of addresses?";
    case EHOSTUNREACH:
      return "no way there: the host is off or unplugged, or a firewall refuses";
    case ETIMEDOUT:
      return "no answer: a firewall that drops packets, or the host is off, unplugged or elsewhere";
    case EACCES:
    case EPERM:
      return "a rule on this host forbids it: look at its firewall and its routes";
    default:
      return {};
  }
}

}  // namespace tutti::comm
