#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>
#include <tutti/comm/wire/socket.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace tutti::comm {
namespace {

using Kind = InterfaceAddress::Kind;

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

Kind kind_of(const std::string& name, unsigned flags) {
  std::error_code ignored;
  if ((flags & IFF_LOOPBACK) != 0) return Kind::Loopback;
  // Within a container the only card may well be the far end of a veth's cable; that one has a card's name.
  const bool is_virtual = std::filesystem::exists("/sys/class/net/" + name + "/bridge", ignored) ||
                          name.starts_with("veth") || name.starts_with("docker") || name.starts_with("virbr");
  return is_virtual ? Kind::Virtual : Kind::Ordinary;
}

constexpr std::size_t kMostPublished = 4;
constexpr int kClearlyFaster = 2;  // times

/// Whether `network` is one ("10.1.0.0/16") and holds the address.
bool holds(const std::string& network, const std::string& address) {
  namespace ip = asio::ip;
  asio::error_code no_address, no_v4, no_v6;
  const ip::address candidate = ip::make_address(address, no_address);
  const ip::network_v4 v4 = ip::make_network_v4(network, no_v4);
  const ip::network_v6 v6 = ip::make_network_v6(network, no_v6);
  if (no_address) return false;
  if (candidate.is_v4())
    return !no_v4 && ip::network_v4(candidate.to_v4(), v4.prefix_length()).canonical() == v4.canonical();
  return !no_v6 && ip::network_v6(candidate.to_v6(), v6.prefix_length()).canonical() == v6.canonical();
}

bool fits(const InterfaceAddress& candidate, const std::string& wanted) {
  return wanted == candidate.address || holds(wanted, candidate.address) ||
         ::fnmatch(wanted.c_str(), candidate.interface.c_str(), 0) == 0;
}

/// Good on one link only, and only together with that link's name.
bool is_link_local(const std::string& address) {
  return address.starts_with("fe80:") || address.starts_with("169.254.");
}

std::string listing(const std::vector<InterfaceAddress>& interfaces) {
  const auto text_of = [](const InterfaceAddress& one) {
    return joined(one.interface, " ", one.address, "/", one.prefix, one.up ? "" : " (down)");
  };
  return interfaces.empty() ? "none" : listed(interfaces, ", ", text_of);
}

/// Whether an address that nothing asked for is published: other hosts may reach it, and have another one there.
bool is_for_other_hosts(const InterfaceAddress& candidate) {
  return candidate.kind == Kind::Ordinary && candidate.up && !is_link_local(candidate.address);
}

/// Why an address is published, the best reason first.
constexpr const char* kReasons[] = {"it reached the store", "the default route", "also up"};

/// Index into kReasons.
std::size_t rank_of(const InterfaceAddress& candidate, const AddressQuestion& question) {
  if (candidate.address == question.towards_store) return 0;
  return candidate.address == question.default_route ? 1 : 2;
}

std::vector<InterfaceAddress> best_first(const AddressQuestion& question) {
  std::vector<InterfaceAddress> sorted = question.interfaces;
  std::ranges::stable_sort(
      sorted, {}, [&](const InterfaceAddress& one) { return std::pair(rank_of(one, question), -one.megabits); });
  return sorted;
}

AddressChoice only(const std::string& address, const AddressQuestion& question, const std::string& why) {
  AddressChoice choice;
  const auto known = std::ranges::find(question.interfaces, address, &InterfaceAddress::address);
  choice.chosen.push_back({address, known == question.interfaces.end() ? "?" : known->interface, why});
  return choice;
}

AddressChoice as_wanted(const AddressQuestion& question) {
  AddressChoice choice;
  bool down = false;
  for (const InterfaceAddress& one : best_first(question)) {
    if (!fits(one, question.wanted) || is_link_local(one.address)) continue;
    if (one.up && choice.chosen.size() < kMostPublished)
      choice.chosen.push_back({one.address, one.interface, question.wanted_by + "=" + question.wanted});
    down = down || !one.up;
  }
  if (!choice.chosen.empty()) return choice;
  refuse(question.wanted_by, "=\"", printable(question.wanted, 100), "\" ",
         down ? "is down, or has no cable" : "fits no interface of this host",
         "; there are: ", listing(question.interfaces),
         ". Give a name (eth0), a pattern (ib*), an address, or a network (10.1.0.0/16)");
}

std::string speed_text(int megabits) {
  return megabits >= 1000 ? std::to_string(megabits / 1000) + " Gbit/s" : std::to_string(megabits) + " Mbit/s";
}

/// Both speeds must be known: most virtual cards do not report theirs.
std::string warn_if_slow(const AddressChoice& choice, const AddressQuestion& question) {
  const auto used = std::ranges::find(question.interfaces, choice.chosen[0].address, &InterfaceAddress::address);
  if (used == question.interfaces.end() || used->megabits == 0) return {};
  const InterfaceAddress* fastest = nullptr;
  for (const InterfaceAddress& one : question.interfaces)
    if (is_for_other_hosts(one) && one.megabits >= kClearlyFaster * used->megabits &&
        (fastest == nullptr || one.megabits > fastest->megabits))
      fastest = &one;
  if (fastest == nullptr) return {};
  return "ranks of other hosts reach this one by " + used->interface + " (" + speed_text(used->megabits) +
         "), though " + fastest->interface + " (" + fastest->address + ", " + speed_text(fastest->megabits) +
         ") is faster: if it leads to all hosts, set TUTTI_IFACE=" + fastest->interface;
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

AddressChoice choose_addresses(const AddressQuestion& question) {
  if (!question.wanted.empty()) return as_wanted(question);
  if (!question.several_hosts && !question.towards_store.empty())
    return only(question.towards_store, question, "it reached the store, and all ranks are on this host");
  if (!question.several_hosts)
    return only(loopback_address(question.interfaces), question, "all ranks are on this host");
  AddressChoice choice;
  // The address that reached the store is known to work even where the kernel does not list it, as in some containers.
  if (!question.towards_store.empty() && !is_loopback_address(question.towards_store) &&
      std::ranges::find(question.interfaces, question.towards_store, &InterfaceAddress::address) ==
          question.interfaces.end())
    choice = only(question.towards_store, question, "it reached the store");
  for (const InterfaceAddress& one : best_first(question)) {
    const bool proven = one.address == question.towards_store && one.kind != Kind::Loopback;
    if ((proven || is_for_other_hosts(one)) && choice.chosen.size() < kMostPublished)
      choice.chosen.push_back({one.address, one.interface, kReasons[rank_of(one, question)]});
  }
  if (choice.chosen.empty()) {
    const bool met = !question.towards_store.empty();
    const std::string last = met ? question.towards_store : loopback_address(question.interfaces);
    choice.chosen = only(last, question, "this host has no other").chosen;
  }
  choice.slow = warn_if_slow(choice, question);
  return choice;
}

std::string AddressChoice::text() const {
  return listed(chosen, ", ",
                [](const auto& one) { return joined(one.address, " (", one.interface, ": ", one.why, ")"); });
}

}  // namespace tutti::comm
