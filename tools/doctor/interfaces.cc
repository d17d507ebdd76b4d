#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <tutti/tools/doctor/host_checks.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

namespace tutti::doctor {
namespace {

std::string number_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return text;
}

std::string speed(std::int64_t mbit_per_s) {
  if (mbit_per_s <= 0) return "";
  return mbit_per_s % 1000 == 0 ? ", " + std::to_string(mbit_per_s / 1000) + " Gbit/s"
                                : ", " + std::to_string(mbit_per_s) + " Mbit/s";
}

std::string described(const Interface& interface) {
  std::string addresses;
  for (const std::string& address : interface.addresses) addresses += (addresses.empty() ? "" : " ") + address;
  return interface.name + " " + addresses + speed(interface.mbit_per_s);
}

bool usable(const Interface& interface) {
  return interface.up && !interface.loopback && !interface.bridge && !interface.addresses.empty();
}

Finding check_route(const std::vector<Interface>& interfaces, const std::string& route_address) {
  const auto is_route = [&](const Interface& interface) {
    return std::find(interface.addresses.begin(), interface.addresses.end(), route_address) !=
           interface.addresses.end();
  };
  const auto route = std::find_if(interfaces.begin(), interfaces.end(), is_route);
  if (route_address.empty() || route == interfaces.end())
    return {"default route", "none", Verdict::Warn,
            "ranks of several hosts find no way by themselves: name the interface with --iface (TUTTI_IFACE)"};
  for (const Interface& other : interfaces)
    if (usable(other) && route->mbit_per_s > 0 && other.mbit_per_s > route->mbit_per_s)
      return {"default route", "leaves by " + described(*route) + ", though " + described(other) + " is faster",
              Verdict::Warn, "for traffic between ranks choose it: --iface " + other.name + " (TUTTI_IFACE)"};
  return {"default route", "leaves by " + route->name + ", " + route_address};
}

}  // namespace

std::vector<Interface> list_interfaces(const System& system) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::map<std::string, Interface> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    Interface& interface = found[entry->ifa_name];
    interface.name = entry->ifa_name;
    interface.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    const std::string address = entry->ifa_addr == nullptr ? "" : number_of(entry->ifa_addr);
    if (!address.empty()) interface.addresses.push_back(address);
  }
  std::vector<Interface> result;
  for (auto& [name, interface] : found) {
    const std::string folder = "/sys/class/net/" + name;
    interface.bridge = system.exists(folder + "/bridge");
    interface.mbit_per_s = std::atoll(system.read(folder + "/speed").c_str());
    result.push_back(std::move(interface));
  }
  return result;
}

Findings check_interfaces(const std::vector<Interface>& interfaces, const std::string& route_address) {
  std::string list, bridges;
  for (const Interface& interface : interfaces) {
    if (usable(interface)) list += (list.empty() ? "" : "; ") + described(interface);
    if (interface.bridge && !interface.addresses.empty())
      bridges += (bridges.empty() ? "" : ", ") + described(interface);
  }
  Findings findings;
  if (list.empty()) {
    findings.push_back({"interfaces", "loopback only", Verdict::Warn,
                        "jobs of this host alone will run; for several hosts bring up a network interface"});
  } else {
    findings.push_back({"interfaces", list});
    findings.push_back(check_route(interfaces, route_address));
  }
  if (!bridges.empty())
    findings.push_back({"bridges", bridges + ": for guests of this host; Tutti passes them over", Verdict::Ok,
                        "other hosts may have the same addresses: keep MPI and PyTorch off them (--mca "
                        "btl_tcp_if_exclude, GLOO_SOCKET_IFNAME)"});
  return findings;
}

}  // namespace tutti::doctor
